// The report's printed forms: one screen for people, valid JSON for programs.
#include "rewriter/report.h"

#include "tests/unit/check.h"

static void add_fused(tfr_report *r, tfr_arena *arena, const char *op, const char *class_name,
                      const char *function, uint32_t line, uint32_t end_line) {
    *TFR_PUSH(arena, &r->fused) = (tfr_fused){.op = tfr_str_from(op),
                                              .class_name = tfr_str_from(class_name),
                                              .function = tfr_str_from(function),
                                              .line = line,
                                              .end_line = end_line,
                                              .count = 1};
    r->changed = true;
}

static void add_refused(tfr_report *r, tfr_arena *arena, const char *op, const char *reason,
                        uint32_t line) {
    *TFR_PUSH(arena, &r->refused) = (tfr_refused){.op = tfr_str_from(op),
                                                  .class_name = TFR_STR("M"),
                                                  .function = TFR_STR("forward"),
                                                  .line = line,
                                                  .column = 5,
                                                  .reason = tfr_str_from(reason),
                                                  .found = TFR_STR("x[0]"),
                                                  .rule = TFR_STR("rule/ref"),
                                                  .block_line = line - 1,
                                                  .block_end_line = line + 1};
}

static tfr_str text_of(tfr_arena *arena, const tfr_report *reports, size_t count) {
    tfr_buf out = {.arena = arena};
    tfr_report_text(&out, reports, count, false);
    return tfr_buf_str(&out);
}

static void one_file(tfr_arena *arena) {
    tfr_report r = {.path = "modeling_x.py"};
    add_fused(&r, arena, "rms_norm", "XNorm", "forward", 10, 14);
    add_fused(&r, arena, "linears", "XMLP", "forward", 20, 20);
    add_fused(&r, arena, "linears", "XMLP", "forward", 30, 31);
    r.fused.items[2].count = 2;
    add_fused(&r, arena, "act_mul", "XMLP", "other", 40, 40);
    add_fused(&r, arena, "rope", "", "helper", 50, 50);
    add_refused(&r, arena, "rope", "q is written to", 60);
    add_refused(&r, arena, "rope", "q is written to", 70);
    CHECK_STR(text_of(arena, &r, 1), "modeling_x.py: 6 blocks fused, 2 not\n"
                                     "  XNorm      rms_norm lines 10-14\n"
                                     "  XMLP       linears  lines 20, 30-31 (x2)\n"
                                     "  XMLP.other act_mul  line 40\n"
                                     "  helper     rope     line 50\n"
                                     "  not fused:\n"
                                     "  60:5 M rope: q is written to (2 places)\n");
}

static void nothing_is_loud(tfr_arena *arena) {
    tfr_report r = {.path = "modeling_x.py"};
    CHECK_STR(text_of(arena, &r, 1), "NOTHING WAS FUSED in modeling_x.py: no block resembles what "
                                     "a rule describes\n");
    r.note = TFR_STR("it has been rewritten before");
    add_refused(&r, arena, "rope", "q is written to", 60);
    CHECK_STR(text_of(arena, &r, 1),
              "NOTHING WAS FUSED in modeling_x.py: no block fulfils every condition of a rule (it "
              "has been rewritten before)\n  not fused:\n  60:5 M rope: q is written to: `x[0]`\n");
    tfr_report several[] = {{.path = "a.py"}, {.path = "b.py"}};
    CHECK_STR(text_of(arena, several, 2), "NOTHING WAS FUSED in any of 2 files\n");
    tfr_error err = {.message = "why"};
    tfr_report failed = {.path = "x.py", .error = &err, .status = TFR_E_REFUSED};
    CHECK_STR(text_of(arena, &failed, 1), ""); // the message has been printed
    CHECK_STR(text_of(arena, NULL, 0), "");
}

static size_t count_lines(tfr_str text) {
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        n += text.data[i] == '\n';
    }
    return n;
}

static void one_screen(tfr_arena *arena) {
    tfr_report r = {.path = "modeling_x.py"};
    for (uint32_t i = 0; i < 3000; i++) {
        const char *name = tfr_str_format(arena, "C%u", i).data;
        add_fused(&r, arena, "linears", name, "forward", i + 1, i + 1);
        add_refused(&r, arena, "rope", name, i + 1);
    }
    tfr_str text = text_of(arena, &r, 1);
    CHECK(count_lines(text) <= 24);
    CHECK_HAS(tfr_str_dup(arena, text), "  2986 more: use --json\n");
    CHECK_HAS(tfr_str_dup(arena, text), "  2994 more: use --json or `tfrewrite why FILE`\n");
    tfr_report *many = TFR_NEW_ARRAY(arena, tfr_report, 100);
    for (size_t i = 0; i < 100; i++) {
        many[i] = r;
    }
    text = text_of(arena, many, 100);
    CHECK(count_lines(text) <= 34);
    CHECK_HAS(tfr_str_dup(arena, text), "76 more files: use --json\n");
    CHECK_HAS(tfr_str_dup(arena, text), "100 files: blocks fused in 100, in 0 nothing to fuse; "
                                        "linears 300000\n");
}

static void several_files(tfr_arena *arena) {
    tfr_error err = {.message = "why"};
    tfr_report r[4] = {{.path = "a.py"},
                       {.path = "b.py"},
                       {.path = "c.py", .error = &err, .status = TFR_E_REFUSED},
                       {.path = "d.py"}};
    add_fused(&r[0], arena, "linears", "A", "forward", 1, 1);
    add_fused(&r[0], arena, "rope", "A", "forward", 2, 2);
    add_fused(&r[3], arena, "linears", "D", "forward", 1, 1);
    add_refused(&r[0], arena, "rope", "rare", 5);
    add_refused(&r[1], arena, "rope", "common", 6);
    add_refused(&r[1], arena, "rope", "common", 7);
    add_refused(&r[3], arena, "rope", "common", 8);
    CHECK_STR(text_of(arena, r, 4),
              "a.py: linears 1, rope 1; 1 not fused\n"
              "d.py: linears 1; 1 not fused\n"
              "commonest reasons not to fuse:\n"
              "  rope: common (3 places in 2 files, first b.py:6:5: `x[0]`)\n"
              "  rope: rare (1 place in 1 file, first a.py:5:5: `x[0]`)\n"
              "4 files: blocks fused in 2, in 1 nothing to fuse, 1 failed or refused (see the "
              "messages); linears 2, rope 1\n");
}

static void json(tfr_arena *arena) {
    tfr_report r = {.path = "a\"\\\n\xff\xc3\xa4.py"};
    add_fused(&r, arena, "linears", "A", "forward", 1, 2);
    add_refused(&r, arena, "rope", "tab\there", 5);
    *TFR_PUSH(arena, &r.reads) = (tfr_file_read){TFR_STR("/a/b.py"), TFR_STR("")};
    *TFR_PUSH(arena, &r.reads) = (tfr_file_read){TFR_STR("/a/c.py"), TFR_STR("why")};
    tfr_buf out = {.arena = arena};
    tfr_report_json(&out, &r, 1);
    CHECK_STR(
        tfr_buf_str(&out),
        "{\"version\": 1, \"files\": [\n"
        "    {\"path\": \"a\\\"\\\\\\u000a\\ufffd\xc3\xa4.py\", \"changed\": true,\n"
        "     \"fused\": [\n"
        "      {\"op\": \"linears\", \"class\": \"A\", \"function\": \"forward\", \"line\": 1, "
        "\"end_line\": 2, \"count\": 1}],\n"
        "     \"refused\": [\n"
        "      {\"op\": \"rope\", \"class\": \"M\", \"function\": \"forward\", \"line\": 5, "
        "\"column\": 5, \"reason\": \"tab\\u0009here\", \"found\": \"x[0]\", \"rule\": "
        "\"rule/ref\", "
        "\"block_line\": 4, \"block_end_line\": 6}],\n     \"reads\": "
        "[{\"path\": \"/a/b.py\", \"fault\": \"\"}, {\"path\": \"/a/c.py\", \"fault\": "
        "\"why\"}]}]}\n");
    tfr_error err = {.line = 3, .column = 4, .message = "why"};
    tfr_report failed[2] = {{.path = "x.py", .error = &err, .status = TFR_E_REFUSED},
                            {.path = "y.py", .error = &err, .status = TFR_E_USAGE}};
    out.len = 0;
    tfr_report_json(&out, failed, 2);
    CHECK_STR(
        tfr_buf_str(&out),
        "{\"version\": 1, \"files\": [\n"
        "    {\"path\": \"x.py\", \"changed\": false,\n     \"fused\": [],\n     \"refused\": "
        "[],\n     \"reads\": [],\n     \"error\": {\"kind\": \"refused\", \"line\": 3, "
        "\"column\": 4, "
        "\"message\": \"why\"}},\n"
        "    {\"path\": \"y.py\", \"changed\": false,\n     \"fused\": [],\n     \"refused\": "
        "[],\n     \"reads\": [],\n     \"error\": {\"kind\": \"io\", \"line\": 3, \"column\": 4, "
        "\"message\": \"why\"}}]}\n");
    out.len = 0;
    tfr_report_json(&out, NULL, 0);
    CHECK_STR(tfr_buf_str(&out), "{\"version\": 1, \"files\": []}\n");
}

static void why(tfr_arena *arena) {
    tfr_report r = {.path = "x.py"};
    add_fused(&r, arena, "linears", "A", "forward", 20, 22);
    add_refused(&r, arena, "rope", "q is written to", 60);
    static const char REFUSED[] =
        "x.py:59-61: M: not fused; nearest rule rule/ref\n  x.py:60:5: q is written to: `x[0]`\n";
    static const char FUSED[] = "x.py:20-22: A: fused as linears\n";
    tfr_buf out = {.arena = arena};
    tfr_report_why(&out, &r, 0, false);
    CHECK_STR(tfr_buf_str(&out), tfr_str_format(arena, "%s%s", REFUSED, FUSED).data);
    for (uint32_t line = 57; line < 64; line++) {
        out.len = 0;
        tfr_report_why(&out, &r, line, false);
        bool inside = line >= 59 && line <= 61;
        CHECK(tfr_str_eq(tfr_buf_str(&out), TFR_STR(REFUSED)) == inside);
    }
    out.len = 0;
    tfr_report_why(&out, &r, 22, false);
    CHECK_STR(tfr_buf_str(&out), FUSED);
    out.len = 0;
    tfr_report_why(&out, &r, 23, false);
    CHECK_STR(tfr_buf_str(&out), "x.py:23: no candidate block contains this line\n");
}

static void errors_and_colors(tfr_arena *arena) {
    tfr_error err = {.path = "a\033.py", .line = 3, .column = 7, .message = "bad"};
    tfr_buf out = {.arena = arena};
    tfr_report_error(&out, &err, TFR_E_REFUSED, false);
    CHECK_STR(tfr_buf_str(&out), "a?.py:3:7: refused: bad\n");
    err = (tfr_error){.message = "bad"};
    out.len = 0;
    tfr_report_error(&out, &err, TFR_E_USAGE, true);
    CHECK_STR(tfr_buf_str(&out), "tfrewrite: \033[1;31merror\033[0m: bad\n");
}

static void copies(tfr_arena *arena) {
    tfr_arena *other = tfr_arena_new();
    tfr_error err = {.message = "why"};
    tfr_report r = {.path = "x.py", .note = TFR_STR("n"), .error = &err, .status = TFR_E_USAGE};
    add_fused(&r, other, tfr_str_format(other, "linears").data, "A", "forward", 1, 2);
    add_refused(&r, other, "rope", tfr_str_format(other, "reason").data, 5);
    tfr_report copy = tfr_report_copy(&r, arena);
    memset(&err, 'x', sizeof err - 1);
    memset(r.fused.items, 'x', sizeof *r.fused.items);
    memset(r.refused.items, 'x', sizeof *r.refused.items);
    tfr_arena_free(other);
    CHECK_STR(copy.fused.items[0].op, "linears");
    CHECK_STR(copy.refused.items[0].reason, "reason");
    CHECK_STR(copy.refused.items[0].found, "x[0]");
    CHECK_STR(copy.note, "n");
    CHECK(strcmp(copy.error->message, "why") == 0 && copy.status == TFR_E_USAGE && copy.changed);
}

int main(void) {
    tfr_arena *arena = tfr_arena_new();
    one_file(arena);
    nothing_is_loud(arena);
    one_screen(arena);
    several_files(arena);
    json(arena);
    why(arena);
    errors_and_colors(arena);
    copies(arena);
    tfr_arena_free(arena);
    return CHECK_DONE();
}
