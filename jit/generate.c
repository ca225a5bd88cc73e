// Text in, text out: knows where macros go and nothing of what they mean.
#define _GNU_SOURCE // memmem, memrchr
#include "jit/generate.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jit/templates.h"

#define MAX_TEMPLATE ((size_t)1 << 20)
#define MAX_INCLUDES 32 // headers there are; each is taken once, so this bounds the nesting too

tfr_str tfr_template_builtin(const char *name) {
    for (const tfr_template_file *f = tfr_template_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return (tfr_str){f->text, f->length};
    return (tfr_str){0};
}

tfr_status tfr_template_read(tfr_str *out, const char *directory, const char *name,
                             tfr_arena *arena, tfr_error *err) {
    const char *path = tfr_str_format(arena, "%s/%s", directory, name).data;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        (size_t)st.st_size > MAX_TEMPLATE) {
        if (fd >= 0)
            close(fd);
        return tfr_fail(
            err, TFR_E_USAGE, path, 0, 0,
            "this kernel template cannot be read; the rule file names it in cpu= or cuda=");
    }
    size_t size = (size_t)st.st_size, have = 0;
    char *text = tfr_arena_alloc(arena, size + 1);
    for (ssize_t n; have < size && (n = read(fd, text + have, size - have)) > 0;)
        have += (size_t)n;
    close(fd);
    *out = (tfr_str){text, have};
    return TFR_OK;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// `at` stands behind a `//` of its line.
static bool in_comment(tfr_str text, const char *at) {
    const char *line = memrchr(text.data, '\n', (size_t)(at - text.data));
    line = line ? line : text.data;
    return memmem(line, (size_t)(at - line), "//", 2) != NULL;
}

static bool mentions(tfr_str text, const char *word, size_t n) {
    for (const char *p = text.data, *end = text.data + text.len;
         (p = memmem(p, (size_t)(end - p), word, n)); p++)
        if ((p == text.data || !is_word(p[-1])) && (p + n == end || !is_word(p[n])) &&
            !in_comment(text, p))
            return true;
    return false;
}

// Only what the template and its headers read: kernels that differ in nothing else are one kernel.
static void define(tfr_buf *source, tfr_buf *label, tfr_str body, const char *name,
                   const char *suffix, const char *value) {
    char macro[128];
    size_t n = 0;
    for (const char *p = name; *p && n + 8 < sizeof macro; p++)
        macro[n++] = (char)toupper((unsigned char)*p);
    strcpy(macro + n, suffix);
    if (!mentions(body, macro, strlen(macro)))
        return;
    bool wide = strcmp(suffix, "_LAST") == 0;
    tfr_buf_format(source, "#define %s %s%s%s\n", macro, wide ? "INT64_C(" : "", value,
                   wide ? ")" : "");
    tfr_buf_format(label, " %s=%s", macro, value);
}

// "A=B C=D" to defines.
static void define_options(tfr_buf *source, tfr_buf *label, const char *options) {
    for (const char *p = options; *p;) {
        size_t word = strcspn(p, " "), name = strcspn(p, "= ");
        if (name < word)
            tfr_buf_format(source, "#define %.*s %.*s\n", (int)name, p, (int)(word - name - 1),
                           p + name + 1);
        if (word)
            tfr_buf_format(label, " %.*s", (int)word, p);
        p += word + (p[word] == ' ');
    }
}

typedef struct inliner {
    tfr_buf *out;
    const tfr_template_file *seen[MAX_INCLUDES]; // each header once
    size_t count;
} inliner;

static const tfr_template_file *find(tfr_str path) {
    for (const tfr_template_file *f = tfr_template_files; f->name; f++) {
        size_t n = strlen(f->name);
        bool ends = path.len >= n && memcmp(path.data + path.len - n, f->name, n) == 0;
        if (ends && (path.len == n || path.data[path.len - n - 1] == '/'))
            return f;
    }
    return NULL;
}

static void inline_text(inliner *in, const char *name, tfr_str text);

// Puts a header of codegen_templates/ in the place of `#include "codegen_templates/vec.h"`. False:
// it is another file, of the compiler or unknown; the line stays.
static bool inline_header(inliner *in, tfr_str line) {
    static const char start[] = "#include \"";
    size_t n = sizeof start - 1;
    if (line.len <= n || memcmp(line.data, start, n) != 0)
        return false;
    const char *end = memchr(line.data + n, '"', line.len - n);
    if (!end)
        return false;
    const tfr_template_file *file = find((tfr_str){line.data + n, (size_t)(end - line.data) - n});
    if (!file || in->count == MAX_INCLUDES)
        return false;
    for (size_t i = 0; i < in->count; i++)
        if (in->seen[i] == file)
            return true;
    in->seen[in->count++] = file;
    inline_text(in, file->name, (tfr_str){file->text, file->length});
    return true;
}

// `#line` lets the compiler's messages name the file and line that a person can open.
static void inline_text(inliner *in, const char *name, tfr_str text) {
    size_t line = 1;
    tfr_buf_format(in->out, "#line 1 \"%s\"\n", name);
    for (size_t at = 0; at < text.len; line++) {
        const char *newline = memchr(text.data + at, '\n', text.len - at);
        size_t n = newline ? (size_t)(newline - text.data) + 1 - at : text.len - at;
        tfr_str one = {text.data + at, n};
        if (inline_header(in, one))
            tfr_buf_format(in->out, "#line %zu \"%s\"\n", line + 1, name);
        else
            tfr_buf_add_str(in->out, one);
        at += n;
    }
    if (text.len && text.data[text.len - 1] != '\n')
        tfr_buf_format(in->out, "\n");
}

void tfr_generate(tfr_generated *out, const tfr_spec *spec, tfr_arena *arena) {
    static const char *const dtypes[] = {"TFR_NONE", "TFR_F32", "TFR_BF16", "TFR_F16"};
    tfr_buf source = {.arena = arena}, label = {.arena = arena}, body = {.arena = arena};
    inliner in = {.out = &body};
    inline_text(&in, spec->template_name, spec->template_text);
    tfr_str text = tfr_buf_str(&body);
    tfr_buf_format(&label, "%s", spec->label);
    if (spec->generic) {
        tfr_buf_format(&label, " generic");
    } else {
        define_options(&source, &label, spec->options);
        for (uint32_t i = 0; i < spec->tensor_count; i++) {
            const tfr_spec_tensor *t = &spec->tensors[i];
            define(&source, &label, text, t->name, "_DTYPE", dtypes[t->dtype + 1]);
            if (t->last >= 0)
                define(&source, &label, text, t->name, "_LAST",
                       tfr_str_format(arena, "%lld", (long long)t->last).data);
        }
    }
    tfr_buf_add_str(&source, text);
    out->source = tfr_buf_str(&source);
    out->label = tfr_buf_str(&label);
}
