// The syntax tree of one source file as a flat array: node 0 is "none", node 1 the module.
// Knows the grammar's names and the trees that tree-sitter gets wrong; knows no meaning.
#ifndef TFR_TREE_H
#define TFR_TREE_H

#include "parser/source.h"

typedef enum tfr_kind {
    TFR_N_OTHER = 0,
#define KIND(suffix, name) TFR_N_##suffix,
#include "parser/kinds.def"
#undef KIND
    TFR_N_TOKEN, // an anonymous token: "(", "+", "lambda"
    TFR_N_KIND_COUNT
} tfr_kind;

typedef enum tfr_field {
    TFR_F_NONE = 0,
#define FIELD(suffix, name) TFR_F_##suffix,
#include "parser/fields.def"
#undef FIELD
    TFR_F_FIELD_COUNT
} tfr_field;

// Deeper trees are refused: every walk over a tree may then use the stack.
#define TFR_MAX_DEPTH 1500

typedef struct tfr_node {
    uint32_t start, end;          // bytes of the source
    uint32_t parent, child, next; // first child, next sibling; 0: none
    uint16_t symbol;              // the grammar's own number, for comparing tokens
    uint8_t kind;                 // tfr_kind
    uint8_t field;                // tfr_field of this node in its parent
} tfr_node;

typedef struct tfr_tree {
    const tfr_source *src;
    const tfr_node *nodes; // in pre-order, but for repaired places
    uint32_t count;
    void
        *parsed; // tree-sitter's own tree, for parsing an edited text again; freed by tfr_tree_free
} tfr_tree;

// Bytes [start, old_end) of an old text became [start, new_end) of the new one, where `start`
// already counts the edits before it.
typedef struct tfr_change {
    uint32_t start, old_end, new_end;
} tfr_change;

// TFR_E_REFUSED with the place of the first error when the text does not parse or is too deep.
tfr_status tfr_tree_parse(tfr_tree *out, const tfr_source *src, tfr_arena *arena, tfr_error *err);

// The same for a text that came out of `old` by `changes`, in order of position. Parts that did not
// change are not parsed again; the result is that of tfr_tree_parse.
tfr_status tfr_tree_parse_again(tfr_tree *out, const tfr_source *src, const tfr_tree *old,
                                const tfr_change *changes, uint32_t change_count, tfr_arena *arena,
                                tfr_error *err);
// A tree that was parsed when the program was built.
static inline tfr_tree tfr_tree_from_data(const tfr_source *src, const tfr_node *nodes,
                                          uint32_t count) {
    return (tfr_tree){.src = src, .nodes = nodes, .count = count};
}
void tfr_tree_free(tfr_tree *tree); // the nodes stay, they belong to the arena

static inline const tfr_node *tfr_tree_at(const tfr_tree *tree, uint32_t node) {
    return &tree->nodes[node];
}
static inline tfr_kind tfr_tree_kind(const tfr_tree *tree, uint32_t node) {
    return (tfr_kind)tree->nodes[node].kind;
}
tfr_str tfr_tree_text(const tfr_tree *tree, uint32_t node);
bool tfr_tree_is(const tfr_tree *tree, uint32_t node, const char *text); // its text is `text`

// The first child with that field; 0: none.
uint32_t tfr_tree_field(const tfr_tree *tree, uint32_t node, tfr_field field);
// The next sibling (or first child, from `tfr_tree_first`) that is neither token nor comment.
uint32_t tfr_tree_first(const tfr_tree *tree, uint32_t node);
uint32_t tfr_tree_next(const tfr_tree *tree, uint32_t node);
// The node without the parentheses around it.
uint32_t tfr_tree_unparen(const tfr_tree *tree, uint32_t node);
// Whether the text of `outer` holds that of `inner` (or is it).
static inline bool tfr_tree_covers(const tfr_tree *tree, uint32_t outer, uint32_t inner) {
    return tree->nodes[outer].start <= tree->nodes[inner].start &&
           tree->nodes[inner].end <= tree->nodes[outer].end;
}
// The name of a parameter of a def, whatever annotation or default it has.
uint32_t tfr_tree_parameter_name(const tfr_tree *tree, uint32_t parameter);
// Pre-order step within the subtree of `root`; 0 at its end. `skip_children` passes over them.
uint32_t tfr_tree_walk(const tfr_tree *tree, uint32_t root, uint32_t node, bool skip_children);

// The text of a node for a message: on one line, cut short; "" for a whole definition.
tfr_str tfr_tree_quote(const tfr_tree *tree, uint32_t node, tfr_arena *arena);

// "attribute", "call", ...: the grammar's name, for messages.
const char *tfr_kind_name(tfr_kind kind);

#endif
