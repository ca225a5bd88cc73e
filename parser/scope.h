// What the names of a module mean: imports, classes with their methods and attributes, functions.
// Knows binding rules of Python; knows nothing of torch beyond the text of dotted paths.
#ifndef TFR_SCOPE_H
#define TFR_SCOPE_H

#include "parser/names.h"
#include "parser/tree.h"

typedef enum tfr_binding_kind {
    TFR_BIND_IMPORT,   // `path` is the dotted path
    TFR_BIND_CLASS,    // `index` into classes
    TFR_BIND_FUNCTION, // `index` into functions
    TFR_BIND_VALUE,    // assigned once; `node` is the value's expression, 0 when it has none
    TFR_BIND_MANY,     // bound more than once, or only under a condition: means nothing certain
} tfr_binding_kind;

typedef struct tfr_binding {
    tfr_name name;
    tfr_binding_kind kind;
    tfr_name path;
    uint32_t index;
    uint32_t node;
} tfr_binding;

// `self.<name> = <value>` somewhere in the methods of a class.
typedef struct tfr_attribute {
    tfr_name name;
    uint32_t values[4]; // the expressions assigned, the first four
    uint32_t times;     // how many assignments there are in all
    bool outside_init;  // assigned in another method than __init__
} tfr_attribute;

typedef struct tfr_class {
    tfr_name name;
    uint32_t node;
    uint32_t first_function, function_count; // its methods, in `functions`
    bool derived_from;                       // another class of the file names it as a base
    struct {
        tfr_name *items; // dotted paths as written and resolved; 0 for what is not a name
        uint32_t count, cap;
    } bases;
    struct {
        tfr_attribute *items;
        uint32_t count, cap;
    } attributes;
} tfr_class;

#define TFR_NO_CLASS UINT32_MAX

typedef struct tfr_function {
    tfr_name name;
    uint32_t node;        // function_definition
    uint32_t decorated;   // decorated_definition around it, or 0
    uint32_t class_index; // TFR_NO_CLASS for functions of the module
    bool is_static;       // @staticmethod or @classmethod: no self
} tfr_function;

typedef struct tfr_scope {
    const tfr_tree *tree;
    tfr_names *names;
    struct {
        tfr_binding *items;
        uint32_t count, cap;
    } bindings;
    uint32_t *binding_of_name; // by name number - names->first... see tfr_scope_lookup
    uint32_t binding_of_name_cap;
    struct {
        tfr_class *items;
        uint32_t count, cap;
    } classes;
    struct {
        tfr_function *items;
        uint32_t count, cap;
    } functions;
    uint32_t strange;  // identifier that Python may read as another one; 0: none
    uint32_t wildcard; // the first `from x import *` that may rebind names imported before; 0: none
    uint32_t last_import; // last top-level import before the first class or function; 0: none
} tfr_scope;

void tfr_scope_build(tfr_scope *out, const tfr_tree *tree, tfr_names *names, tfr_arena *arena);

// NULL: not bound in this module (a builtin, or unknown).
const tfr_binding *tfr_scope_lookup(const tfr_scope *scope, tfr_name name);

// A class of this file by name; TFR_NO_CLASS when it is not exactly one.
uint32_t tfr_scope_class(const tfr_scope *scope, tfr_name name);

// Whether class `from` is among the bases of `class_index`, directly or not, in this file.
bool tfr_scope_derives(const tfr_scope *scope, uint32_t class_index, uint32_t from);

// Looks through the class and its bases in this file. NULL: not found here.
const tfr_function *tfr_scope_method(const tfr_scope *scope, uint32_t class_index, tfr_name name);
const tfr_attribute *tfr_scope_attribute(const tfr_scope *scope, uint32_t class_index,
                                         tfr_name name);
// Whether another class of the file derives from `class_index` and has that method itself.
bool tfr_scope_overridden(const tfr_scope *scope, uint32_t class_index, tfr_name method);

#endif
