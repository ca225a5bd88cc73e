// From a dotted path to a file: relative ones from the folder of the file that has them, absolute
// ones in the package transformers alone. Of that package only models/ is read: its other modules
// are its own machinery, large, and hold nothing that is matched.
#define _GNU_SOURCE // realpath
#include "rewriter/imports.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct parsed {
    const char *path;
    const char *fault; // why it was not read; NULL: it was
    tfr_source source;
    tfr_tree tree;
} parsed;

struct tfr_project {
    tfr_arena *arena;
    const char *transformers;
    size_t bytes;
    TFR_LIST(parsed *) files;
};

struct tfr_imports {
    tfr_project *project;
    tfr_arena *arena;
    tfr_report *report;
    const char *path, *folder, *package; // of the file itself; the package transformers, or NULL
    const tfr_module *main;
    size_t bytes;
    uint32_t next_class;
    TFR_LIST(tfr_module *) modules;
    struct {
        struct found {
            uint32_t from; // number of a module
            tfr_name path;
            tfr_module *module; // NULL: no file, or one that was not read
        } * items;
        uint32_t count, cap;
    } found;
};

// ---- where files are --------------------------------------------------------------------------

static bool is_file(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static const char *real_path(const char *path, tfr_arena *arena) {
    char whole[PATH_MAX];
    return realpath(path, whole) ? tfr_str_dup(arena, tfr_str_from(whole)) : NULL;
}

// The folder above; "": none.
static tfr_str parent_of(tfr_str path) {
    while (path.len && path.data[path.len - 1] != '/')
        path.len--;
    path.len -= path.len != 0;
    return path;
}

// The package that a folder lies in: the one called transformers that has Transformers' base class.
static const char *package_around(const char *folder, tfr_arena *arena) {
    static const char NAME[] = "/transformers";
    size_t n = sizeof NAME - 1;
    for (tfr_str at = tfr_str_from(folder); at.len >= n; at = parent_of(at)) {
        if (memcmp(at.data + at.len - n, NAME, n) != 0)
            continue;
        const char *package = tfr_str_dup(arena, at);
        if (is_file(tfr_str_format(arena, "%s/modeling_utils.py", package).data))
            return package;
    }
    return NULL;
}

tfr_project *tfr_project_new(const char *transformers) {
    tfr_arena *arena = tfr_arena_new();
    tfr_project *p = TFR_NEW(arena, tfr_project);
    *p = (tfr_project){.arena = arena};
    p->transformers = transformers ? real_path(transformers, arena) : NULL;
    return p;
}

void tfr_project_free(tfr_project *project) {
    if (project)
        tfr_arena_free(project->arena);
}

tfr_imports *tfr_imports_new(tfr_project *project, const char *path, tfr_report *report,
                             tfr_arena *arena) {
    tfr_str folder = parent_of(tfr_str_from(path));
    const char *given = folder.len ? tfr_str_dup(arena, folder) : path[0] == '/' ? "/" : ".";
    if (!project || !is_file(path))
        return NULL;
    tfr_imports *out = TFR_NEW(arena, tfr_imports);
    *out = (tfr_imports){.project = project, .arena = arena, .report = report};
    out->folder = real_path(given, arena); // of the folder: Hub files are links to blobs
    if (!out->folder)
        return NULL;
    const char *slash = strrchr(path, '/');
    out->path = tfr_str_format(arena, "%s/%s", out->folder, slash ? slash + 1 : path).data;
    out->package = package_around(out->folder, arena);
    if (!out->package)
        out->package = project->transformers;
    return out;
}

void tfr_imports_attach(tfr_imports *imports, tfr_module *module) {
    if (!imports)
        return;
    if (!imports->main) {
        imports->main = module;
        imports->next_class = module->scope->classes.count;
    }
    module->files = imports;
    module->folder = imports->folder;
}

// The path that `..a.b` or `transformers.models.a` has from `folder`; NULL: none that is read.
static const char *path_of(const tfr_imports *f, const char *folder, tfr_str dotted) {
    static const char PACKAGE[] = "transformers.";
    tfr_str base = tfr_str_from(folder), rest = dotted;
    while (rest.len && rest.data[0] == '.') {
        if (rest.data != dotted.data)
            base = parent_of(base);
        rest = (tfr_str){rest.data + 1, rest.len - 1};
    }
    if (rest.data == dotted.data) {
        size_t n = sizeof PACKAGE - 1;
        if (!f->package || rest.len <= n || memcmp(rest.data, PACKAGE, n) != 0)
            return NULL;
        base = tfr_str_from(f->package);
        rest = (tfr_str){rest.data + n, rest.len - n};
    }
    if (!rest.len || !base.len)
        return NULL;
    tfr_buf out = {.arena = f->arena};
    tfr_buf_add_str(&out, base);
    for (size_t i = 0; i < rest.len; i++) {
        if (i == 0 || rest.data[i] == '.')
            tfr_buf_add(&out, "/", 1);
        if (rest.data[i] != '.')
            tfr_buf_add(&out, rest.data + i, 1);
    }
    const char *stem = tfr_str_dup(f->arena, tfr_buf_str(&out));
    size_t n = f->package ? strlen(f->package) : 0;
    bool machinery = n && strncmp(stem, f->package, n) == 0 && stem[n] == '/' &&
                     strncmp(stem + n, "/models/", 8) != 0;
    bool package = is_file(tfr_str_format(f->arena, "%s/__init__.py", stem).data);
    return machinery || package ? NULL : tfr_str_format(f->arena, "%s.py", stem).data;
}

// ---- reading them -----------------------------------------------------------------------------

static parsed *parse(tfr_project *p, const char *path) {
    for (uint32_t i = 0; i < p->files.count; i++)
        if (strcmp(p->files.items[i]->path, path) == 0)
            return p->files.items[i];
    parsed *file = TFR_NEW(p->arena, parsed);
    *file = (parsed){.path = tfr_str_dup(p->arena, tfr_str_from(path))};
    *TFR_PUSH(p->arena, &p->files) = file;
    tfr_error err = {0};
    if (!is_file(path)) {
        file->fault = "there is no such file";
    } else if (p->bytes > TFR_MAX_PROJECT_BYTES) {
        file->fault = "too much has been read already";
    } else if (tfr_source_read(&file->source, file->path, p->arena, &err) != TFR_OK ||
               tfr_tree_parse(&file->tree, &file->source, p->arena, &err) != TFR_OK) {
        file->fault = tfr_str_dup(p->arena, tfr_str_from(err.message));
    } else {
        tfr_tree_free(&file->tree); // the flat nodes stay
        p->bytes += file->source.bytes.len;
    }
    return file;
}

static tfr_module *make_module(tfr_imports *f, const parsed *file) {
    tfr_scope *scope = TFR_NEW(f->arena, tfr_scope);
    tfr_scope_build(scope, &file->tree, f->main->names, f->arena);
    if (scope->strange)
        return NULL;
    tfr_module *m = TFR_NEW(f->arena, tfr_module);
    *m = *f->main;
    m->scope = scope;
    m->purity = TFR_NEW_ARRAY(f->arena, uint8_t, scope->classes.count + 1);
    m->flows = TFR_NEW_ARRAY(f->arena, tfr_flow *, scope->functions.count + 1);
    m->folder = tfr_str_dup(f->arena, parent_of(tfr_str_from(file->path)));
    m->path = file->path;
    m->number = (uint8_t)(f->modules.count + 1);
    m->first_class = f->next_class;
    f->next_class += scope->classes.count;
    *TFR_PUSH(f->arena, &f->modules) = m;
    return m;
}

static tfr_module *open_path(tfr_imports *f, const char *path) {
    for (uint32_t i = 0; i < f->modules.count; i++)
        if (strcmp(f->modules.items[i]->path, path) == 0)
            return f->modules.items[i];
    if (strcmp(path, f->path) == 0)
        return NULL; // a cycle: what another file sees of this one is not followed
    if (f->report->reads.count == TFR_MAX_IMPORTED_FILES || f->bytes > TFR_MAX_IMPORTED_BYTES)
        return NULL;
    const parsed *file = parse(f->project, path);
    f->bytes += file->source.bytes.len;
    *TFR_PUSH(f->arena, &f->report->reads) =
        (tfr_file_read){.path = tfr_str_from(file->path),
                        .fault = file->fault ? tfr_str_from(file->fault) : (tfr_str){"", 0}};
    return file->fault ? NULL : make_module(f, file);
}

// Whether a statement of the file imports just that: of `from .a import B` and B.make(), a.B.make
// is looked up too, and a/B.py is not missing.
static bool imports_it(const tfr_module *from, tfr_name whole) {
    for (uint32_t i = 0; i < from->scope->bindings.count; i++)
        if (from->scope->bindings.items[i].path == whole)
            return true;
    return false;
}

static tfr_module *open_module(const tfr_module *from, tfr_str dotted, tfr_name whole) {
    tfr_imports *f = from->files;
    tfr_name path = tfr_names_add(from->names, dotted);
    for (uint32_t i = 0; i < f->found.count; i++)
        if (f->found.items[i].from == from->number && f->found.items[i].path == path)
            return f->found.items[i].module;
    const char *file = path_of(f, from->folder, dotted);
    bool missing = file && !is_file(file) && !imports_it(from, whole);
    tfr_module *module = file && !missing ? open_path(f, file) : NULL;
    *TFR_PUSH(f->arena, &f->found) = (struct found){from->number, path, module};
    return module;
}

// ---- what they bind ---------------------------------------------------------------------------

const tfr_binding *tfr_module_import(const tfr_module *module, tfr_name path, tfr_module **found) {
    for (int step = 0; step < TFR_MAX_REEXPORTS && module->files && path; step++) {
        tfr_str text = tfr_names_text(module->names, path);
        tfr_str name = tfr_last_part(text);
        if (name.len == text.len)
            return NULL;
        tfr_str from = {text.data, text.len - name.len - 1};
        module = open_module(module, from, path);
        const tfr_binding *b =
            module ? tfr_scope_lookup(module->scope, tfr_names_find(module->names, name)) : NULL;
        if (!b)
            return NULL;
        *found = (tfr_module *)module;
        if (b->kind != TFR_BIND_IMPORT)
            return b;
        path = b->path;
    }
    return NULL;
}

tfr_module *tfr_module_of_class(tfr_module *module, uint32_t *class_id) {
    uint32_t id = *class_id;
    const tfr_imports *f = module->files;
    for (uint32_t i = 0; i <= (f ? f->modules.count : 0); i++) {
        tfr_module *m = i ? f->modules.items[i - 1] : module;
        if (id < m->first_class || id - m->first_class >= m->scope->classes.count)
            continue;
        *class_id = id - m->first_class;
        return m;
    }
    return NULL;
}
