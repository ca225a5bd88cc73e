// Copies tree-sitter's tree into a flat array in one cursor walk, so that the rest of the program
// indexes instead of asking, and repairs or refuses what the grammar gets wrong without an error.
#include "parser/tree.h"

#include "parser/prescan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tree_sitter/api.h>

const TSLanguage *tree_sitter_python(void);

// Grammar numbers to ours: filled once, read-only afterwards.
static pthread_once_t language_once = PTHREAD_ONCE_INIT;
static uint8_t *kind_of_symbol;
static TSSymbol splat_symbol, star_symbol;
static uint8_t *field_of_id;

static const char *const kind_names[TFR_N_KIND_COUNT] = {
    [TFR_N_OTHER] = "expression",
#define KIND(suffix, name) [TFR_N_##suffix] = name,
#include "parser/kinds.def"
#undef KIND
    [TFR_N_TOKEN] = "token",
};
static const char *const field_names[TFR_F_FIELD_COUNT] = {
#define FIELD(suffix, name) [TFR_F_##suffix] = name,
#include "parser/fields.def"
#undef FIELD
};

static void language_init(void) {
    const TSLanguage *language = tree_sitter_python();
    static tfr_arena *forever;
    forever = tfr_arena_new();
    uint32_t symbols = ts_language_symbol_count(language);
    kind_of_symbol = tfr_arena_alloc(forever, symbols);
    for (uint32_t s = 0; s < symbols; s++) {
        if (ts_language_symbol_type(language, (TSSymbol)s) != TSSymbolTypeRegular) {
            kind_of_symbol[s] = TFR_N_TOKEN;
            continue;
        }
        const char *name = ts_language_symbol_name(language, (TSSymbol)s);
        for (int k = 1; k < TFR_N_TOKEN; k++)
            if (strcmp(kind_names[k], name) == 0)
                kind_of_symbol[s] = (uint8_t)k;
    }
    splat_symbol = ts_language_symbol_for_name(language, "list_splat", 10, true);
    star_symbol = ts_language_symbol_for_name(language, "*", 1, false);
    uint32_t fields = ts_language_field_count(language);
    field_of_id = tfr_arena_alloc(forever, fields + 1);
    for (uint32_t f = 1; f <= fields; f++) {
        const char *name = ts_language_field_name_for_id(language, (TSFieldId)f);
        for (int k = 1; k < TFR_F_FIELD_COUNT; k++)
            if (strcmp(field_names[k], name) == 0)
                field_of_id[f] = (uint8_t)k;
    }
}

const char *tfr_kind_name(tfr_kind kind) { return kind_names[kind]; }

#define LONGEST_QUOTE 60

tfr_str tfr_tree_quote(const tfr_tree *tree, uint32_t node, tfr_arena *arena) {
    tfr_buf out = {.arena = arena};
    if (!node || tfr_tree_kind(tree, node) == TFR_N_FUNCTION)
        return tfr_buf_str(&out);
    tfr_str text = tfr_tree_text(tree, node);
    size_t shown = 0;
    bool space = false;
    for (size_t i = 0; i < text.len; i++) {
        bool blank = strchr(" \t\r\n\f\\", text.data[i]);
        bool starts = ((unsigned char)text.data[i] & 0xc0) != 0x80; // of a character
        shown += !blank && starts ? 1u + space : 0;
        if (shown > LONGEST_QUOTE) {
            tfr_buf_add_str(&out, TFR_STR("..."));
            break;
        }
        if (!blank && space)
            tfr_buf_add(&out, " ", 1);
        if (!blank)
            tfr_buf_add(&out, text.data + i, 1);
        space = blank;
    }
    return tfr_buf_str(&out);
}

tfr_str tfr_tree_text(const tfr_tree *tree, uint32_t node) {
    const tfr_node *n = &tree->nodes[node];
    return (tfr_str){tree->src->text.data + n->start, n->end - n->start};
}

bool tfr_tree_is(const tfr_tree *tree, uint32_t node, const char *text) {
    return tfr_str_eq(tfr_tree_text(tree, node), tfr_str_from(text));
}

uint32_t tfr_tree_field(const tfr_tree *tree, uint32_t node, tfr_field field) {
    for (uint32_t c = tree->nodes[node].child; c; c = tree->nodes[c].next)
        if (tree->nodes[c].field == field)
            return c;
    return 0;
}

static uint32_t skip_trivia(const tfr_tree *tree, uint32_t node) {
    for (; node; node = tree->nodes[node].next) {
        uint8_t kind = tree->nodes[node].kind;
        if (kind != TFR_N_TOKEN && kind != TFR_N_COMMENT && kind != TFR_N_LINE_CONTINUATION)
            break;
    }
    return node;
}

uint32_t tfr_tree_first(const tfr_tree *tree, uint32_t node) {
    return skip_trivia(tree, tree->nodes[node].child);
}

uint32_t tfr_tree_next(const tfr_tree *tree, uint32_t node) {
    return skip_trivia(tree, tree->nodes[node].next);
}

uint32_t tfr_tree_unparen(const tfr_tree *tree, uint32_t node) {
    while (tree->nodes[node].kind == TFR_N_PARENTHESIZED)
        node = tfr_tree_first(tree, node);
    return node;
}

uint32_t tfr_tree_parameter_name(const tfr_tree *tree, uint32_t parameter) {
    if (tfr_tree_kind(tree, parameter) == TFR_N_IDENTIFIER)
        return parameter;
    uint32_t name = tfr_tree_field(tree, parameter, TFR_F_NAME);
    return name ? name : tfr_tree_first(tree, parameter);
}

uint32_t tfr_tree_walk(const tfr_tree *tree, uint32_t root, uint32_t node, bool skip_children) {
    if (!skip_children && tree->nodes[node].child)
        return tree->nodes[node].child;
    while (node != root) {
        if (tree->nodes[node].next)
            return tree->nodes[node].next;
        node = tree->nodes[node].parent;
    }
    return 0;
}

static bool is_splat_item(uint8_t kind) {
    return kind == TFR_N_EXPRESSION_LIST || kind == TFR_N_SUBSCRIPT || kind == TFR_N_LIST;
}

// What a splat may be parsed as the first part of, instead of around it.
static bool is_around_splat(uint8_t kind) {
    return kind == TFR_N_ATTRIBUTE || kind == TFR_N_CALL || kind == TFR_N_SUBSCRIPT ||
           kind == TFR_N_BINARY;
}

// Those that were parsed as unary operators (see parse) become splats; 0: all, else one that is no
// item of anything, which only Python refuses.
static uint32_t make_splats(const tfr_tree *tree, tfr_node *n) {
    for (uint32_t i = 1; i < tree->count; i++) {
        if (n[i].kind != TFR_N_UNARY || tree->src->text.data[n[i].start] != '*')
            continue;
        n[i].kind = TFR_N_LIST_SPLAT, n[i].symbol = splat_symbol;
        n[n[i].child].symbol = star_symbol;
        for (uint32_t c = n[i].child; c; c = n[c].next)
            n[c].field = TFR_F_NONE;
        uint32_t outer = i;
        while (n[n[outer].parent].child == outer && !is_splat_item(n[n[outer].parent].kind)) {
            outer = n[outer].parent;
            if (!is_around_splat(n[outer].kind))
                return i;
        }
        if (!is_splat_item(n[n[outer].parent].kind))
            return i;
    }
    return 0;
}

// `[*a.b]` comes as attribute(list_splat(a), b): turn it into list_splat(attribute(a, b)).
static void repair_splat(const tfr_tree *tree, tfr_node *n, uint32_t splat) {
    for (;;) {
        uint32_t outer = n[splat].parent;
        if (!is_around_splat(n[outer].kind) || n[outer].child != splat)
            return;
        uint32_t star = n[splat].child;
        uint32_t operand = tfr_tree_first(tree, splat);
        if (!star || !operand)
            return;
        tfr_node was_outer = n[outer], was_splat = n[splat];
        n[outer].kind = was_splat.kind, n[outer].symbol = was_splat.symbol, n[outer].child = star;
        n[splat].kind = was_outer.kind, n[splat].symbol = was_outer.symbol;
        n[splat].start = n[operand].start, n[splat].end = was_outer.end;
        n[splat].child = operand, n[splat].next = 0, n[splat].field = TFR_F_NONE;
        n[operand].next = was_splat.next, n[operand].field = was_splat.field;
        for (uint32_t c = operand; c; c = n[c].next)
            n[c].parent = splat;
        for (uint32_t c = star; c != operand; c = n[c].next) {
            n[c].parent = outer;
            if (n[c].next == operand) {
                n[c].next = splat;
                break;
            }
        }
        splat = outer;
    }
}

static tfr_status fail_to_parse(const tfr_source *src, uint32_t at, bool missing, tfr_error *err) {
    return tfr_source_fail(err, TFR_E_REFUSED, src, at,
                           "%s; the file is left as it is. Check it with `python -m py_compile`",
                           missing ? "invalid Python: something is missing here"
                                   : "invalid Python: this cannot be parsed");
}

static tfr_status fail_at_error(const tfr_source *src, TSTree *ts, tfr_error *err) {
    TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(ts));
    uint32_t at = 0;
    bool missing = false;
    for (bool more = true; more;) {
        TSNode node = ts_tree_cursor_current_node(&cursor);
        at = ts_node_start_byte(node);
        missing = ts_node_is_missing(node);
        if (missing || ts_node_is_error(node))
            break;
        if (ts_node_has_error(node) && ts_tree_cursor_goto_first_child(&cursor))
            continue;
        while (!(more = ts_tree_cursor_goto_next_sibling(&cursor)))
            if (!ts_tree_cursor_goto_parent(&cursor))
                break;
    }
    ts_tree_cursor_delete(&cursor);
    return fail_to_parse(src, at, missing, err);
}

static tfr_status copy_nodes(tfr_tree *tree, TSTree *ts, tfr_arena *arena, tfr_error *err) {
    TSNode root = ts_tree_root_node(ts);
    size_t cap = ts_node_descendant_count(root) + 2;
    tfr_node *nodes = TFR_NEW_ARRAY(arena, tfr_node, cap);
    tree->nodes = nodes;
    tree->count = 1;
    uint32_t *last_child = TFR_NEW_ARRAY(arena, uint32_t, TFR_MAX_DEPTH + 2);
    uint32_t depth = 0, parent = 0;
    TSTreeCursor cursor = ts_tree_cursor_new(root);
    tfr_status status = TFR_OK;
    for (;;) {
        TSNode node = ts_tree_cursor_current_node(&cursor);
        uint32_t id = tree->count++;
        TSSymbol symbol = ts_node_symbol(node);
        tfr_node *n = &nodes[id];
        n->start = ts_node_start_byte(node);
        n->end = ts_node_end_byte(node);
        n->symbol = symbol;
        n->kind = kind_of_symbol[symbol];
        n->field = field_of_id[ts_tree_cursor_current_field_id(&cursor)];
        n->parent = parent;
        if (parent && last_child[depth])
            nodes[last_child[depth]].next = id;
        else if (parent)
            nodes[parent].child = id;
        last_child[depth] = id;
        // Strings are opaque but for the expressions of an f-string.
        if (ts_tree_cursor_goto_first_child(&cursor)) {
            if (++depth > TFR_MAX_DEPTH) {
                status = tfr_source_fail(err, TFR_E_REFUSED, tree->src, n->start,
                                         "nested deeper than %d levels; split the expression",
                                         TFR_MAX_DEPTH);
                break;
            }
            last_child[depth] = 0;
            parent = id;
            continue;
        }
        bool moved;
        while (!(moved = ts_tree_cursor_goto_next_sibling(&cursor))) {
            if (!ts_tree_cursor_goto_parent(&cursor))
                break;
            depth--;
            parent = nodes[parent].parent;
        }
        if (!moved)
            break;
    }
    ts_tree_cursor_delete(&cursor);
    uint32_t wrong = status == TFR_OK ? make_splats(tree, nodes) : 0;
    if (wrong)
        status = fail_to_parse(tree->src, nodes[wrong].start, false, err);
    for (uint32_t i = 1; i < tree->count && status == TFR_OK; i++)
        if (nodes[i].kind == TFR_N_LIST_SPLAT)
            repair_splat(tree, nodes, i);
    return status;
}

static tfr_status parse(tfr_tree *out, const tfr_source *src, const TSTree *old, tfr_arena *arena,
                        tfr_error *err) {
    TSParser *parser = ts_parser_new();
    ts_parser_set_language(parser, tree_sitter_python());
    uint32_t len = (uint32_t)src->text.len;
    TSTree *ts = ts_parser_parse_string(parser, old, src->text.data, len);
    // The grammar has no `x, *[y]` outside of brackets, but unary operators everywhere.
    if (ts && ts_node_has_error(ts_tree_root_node(ts))) {
        char *text = memcpy(tfr_arena_alloc(arena, len), src->text.data, len);
        if (tfr_prescan_splats(src, text)) {
            ts_tree_delete(ts);
            ts = ts_parser_parse_string(parser, old, text, len);
        }
    }
    ts_parser_delete(parser);
    *out = (tfr_tree){.src = src, .parsed = ts};
    if (!ts)
        return tfr_source_fail(err, TFR_E_REFUSED, src, 0, "the parser gave up on this file");
    tfr_status status = ts_node_has_error(ts_tree_root_node(ts)) ? fail_at_error(src, ts, err)
                                                                 : copy_nodes(out, ts, arena, err);
    if (status != TFR_OK) {
        tfr_tree_free(out);
        return status;
    }
    return TFR_OK;
}

tfr_status tfr_tree_parse(tfr_tree *out, const tfr_source *src, tfr_arena *arena, tfr_error *err) {
    pthread_once(&language_once, language_init);
    return parse(out, src, NULL, arena, err);
}

// An edit of tree-sitter's tree walks over all children of the nodes around it: beyond so many it
// costs more than parsing.
#define MAX_CHANGES 500

// Row and column in bytes, as tree-sitter counts them.
static TSPoint point_at(const tfr_source *src, uint32_t offset) {
    uint32_t low = 0, high = src->line_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (src->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return (TSPoint){low, offset - (src->line_count ? src->lines[low] : 0)};
}

tfr_status tfr_tree_parse_again(tfr_tree *out, const tfr_source *src, const tfr_tree *old,
                                const tfr_change *changes, uint32_t change_count, tfr_arena *arena,
                                tfr_error *err) {
    if (change_count > MAX_CHANGES)
        return parse(out, src, NULL, arena, err);
    TSTree *edited = ts_tree_copy(old->parsed);
    // From the last to the first, so that positions before a change are those of both texts.
    int64_t shift = 0;
    for (uint32_t i = 0; i < change_count; i++)
        shift += (int64_t)changes[i].new_end - (int64_t)changes[i].old_end;
    for (uint32_t i = change_count; i-- > 0;) {
        const tfr_change *c = &changes[i];
        shift -= (int64_t)c->new_end - (int64_t)c->old_end;
        uint32_t start = (uint32_t)((int64_t)c->start - shift);
        uint32_t old_end = (uint32_t)((int64_t)c->old_end - shift);
        uint32_t new_end = start + (c->new_end - c->start);
        TSInputEdit edit = {.start_byte = start,
                            .old_end_byte = old_end,
                            .new_end_byte = new_end,
                            .start_point = point_at(old->src, start),
                            .old_end_point = point_at(old->src, old_end)};
        // Where the new text ends, on the old text's lines: rows added by the new text itself.
        TSPoint from = point_at(src, c->start), to = point_at(src, c->new_end);
        edit.new_end_point.row = edit.start_point.row + (to.row - from.row);
        edit.new_end_point.column =
            to.row == from.row ? edit.start_point.column + (to.column - from.column) : to.column;
        ts_tree_edit(edited, &edit);
    }
    tfr_status status = parse(out, src, edited, arena, err);
    ts_tree_delete(edited);
    return status;
}

void tfr_tree_free(tfr_tree *tree) {
    if (tree->parsed)
        ts_tree_delete(tree->parsed);
    tree->parsed = NULL;
}
