// NVIDIA documents neither the sections of a cubin nor their attributes; what stands here was read
// off compiled kernels and is held against the compiler's own report
// (tests/jit/test_nvrtc.py). A section `.nv.info` is a list of attributes: format, number,
// then 16 bits that are the value or the size of the value behind them.
#define _GNU_SOURCE // memmem
#include "jit/cubin.h"

#include "jit/bytes.h"

#include <elf.h>
#include <limits.h>

#define CUDA_MACHINE 190u
#define ABI_NEW                                                                                    \
    8u                  // EI_ABIVERSION; the architecture is in bits 8 to 15 of the flags, before
                        // in bits 0 to 7
#define IS_KERNEL 0x10u // st_other of a kernel's symbol
#define RESERVED_SHARED 1024u // from sm_90 on the section of shared memory begins with this
#define MAX_NAME 256u

enum { // attributes
    MAX_THREADS = 0x05,
    REQUIRED_THREADS = 0x10,
    FRAME_SIZE = 0x11,
    STACK_SIZE = 0x12,
    REGISTERS = 0x2f,
};
enum { FORMAT_SIZED = 4 };

static bool starts_with(tfr_str text, const char *start) {
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.data, start, len) == 0;
}

static bool is_name(tfr_str text) {
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9')) {
            return false;
        }
    }
    return text.len > 0 && text.len < MAX_NAME;
}

// ------------------------------------------------------------------ ELF
typedef struct elf {
    tfr_str bytes;
    Elf64_Ehdr head;
    tfr_str names; // of sections
} elf;

// A part of the file; empty where it is not all there.
static tfr_str part(tfr_str bytes, uint64_t offset, uint64_t size) {
    bool inside = offset <= bytes.len && size <= bytes.len - offset;
    return inside ? (tfr_str){bytes.data + offset, (size_t)size} : (tfr_str){0};
}

static Elf64_Shdr section(const elf *e, size_t index) {
    Elf64_Shdr s = {0};
    if (index < e->head.e_shnum) {
        memcpy(&s, e->bytes.data + e->head.e_shoff + index * sizeof s, sizeof s);
    }
    return s;
}

static tfr_str content(const elf *e, const Elf64_Shdr *s) {
    return s->sh_type == SHT_NOBITS ? (tfr_str){0} : part(e->bytes, s->sh_offset, s->sh_size);
}

// A text of a string table; empty where it does not end inside.
static tfr_str text_at(tfr_str table, uint64_t offset) {
    if (offset >= table.len) {
        return (tfr_str){0};
    }
    const char *start = table.data + offset, *end = memchr(start, 0, table.len - (size_t)offset);
    return end ? (tfr_str){start, (size_t)(end - start)} : (tfr_str){0};
}

static const char *open_elf(tfr_str bytes, elf *e) {
    *e = (elf){.bytes = bytes};
    if (bytes.len == 0) {
        return "it is empty";
    }
    if (bytes.len < sizeof e->head || memcmp(bytes.data, ELFMAG, SELFMAG) != 0) {
        return "it is no ELF file";
    }
    memcpy(&e->head, bytes.data, sizeof e->head);
    if (e->head.e_ident[EI_CLASS] != ELFCLASS64 || e->head.e_ident[EI_DATA] != ELFDATA2LSB ||
        e->head.e_machine != CUDA_MACHINE) {
        return "it is no CUDA machine code";
    }
    // The tables come last: of program headers in new ones, of sections in old ones.
    if (e->head.e_shentsize != sizeof(Elf64_Shdr) || e->head.e_shnum == 0 ||
        !part(bytes, e->head.e_shoff, (uint64_t)e->head.e_shnum * sizeof(Elf64_Shdr)).data ||
        !part(bytes, e->head.e_phoff, (uint64_t)e->head.e_phnum * e->head.e_phentsize).data) {
        return "it is cut off";
    }
    for (size_t i = 0; i < e->head.e_shnum; i++) {
        Elf64_Shdr s = section(e, i);
        if (s.sh_type != SHT_NOBITS && !part(bytes, s.sh_offset, s.sh_size).data) {
            return "it is cut off";
        }
    }
    Elf64_Shdr names = section(e, e->head.e_shstrndx);
    e->names = content(e, &names);
    return e->names.len ? NULL : "its sections have no names";
}

// The section called `prefix` + `name`; false: there is none.
static bool find_section(const elf *e, const char *prefix, tfr_str name, Elf64_Shdr *out) {
    size_t len = strlen(prefix);
    for (size_t i = 0; i < e->head.e_shnum; i++) {
        *out = section(e, i);
        tfr_str found = text_at(e->names, out->sh_name);
        if (starts_with(found, prefix) &&
            tfr_str_eq((tfr_str){found.data + len, found.len - len}, name)) {
            return true;
        }
    }
    return false;
}

// ------------------------------------------------------------------ cubin
// The kernel's symbol: its number, its name.
static const char *find_kernel(const elf *e, uint32_t *number, tfr_str *name) {
    Elf64_Shdr symbols, strings;
    size_t kernels = 0;
    if (!find_section(e, ".symtab", TFR_STR(""), &symbols)) {
        return "it has no symbols";
    }
    strings = section(e, symbols.sh_link);
    tfr_str table = content(e, &symbols), names = content(e, &strings);
    for (size_t i = 0; i < table.len / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;
        memcpy(&s, table.data + i * sizeof s, sizeof s);
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && (s.st_other & IS_KERNEL)) {
            kernels++;
            *number = (uint32_t)i;
            *name = text_at(names, s.st_name);
        }
    }
    if (kernels != 1) {
        return kernels ? "it holds several kernels" : "it holds no kernel";
    }
    return is_name(*name) ? NULL : "its kernel's name is no name";
}

// Threads of a block, of its three sizes.
static uint32_t threads(tfr_str value) {
    uint64_t count = 1;
    for (size_t i = 0; i < 3; i++) {
        count *= tfr_get32(value.data + 4 * i);
        count = count > UINT32_MAX ? UINT32_MAX : count;
    }
    return (uint32_t)count;
}

static void take_attribute(unsigned attribute, tfr_str value, uint32_t symbol, tfr_cubin *out) {
    if (value.len >= 12 && (attribute == MAX_THREADS || attribute == REQUIRED_THREADS)) {
        out->max_threads = threads(value);
        return;
    }
    if (value.len < 8 || tfr_get32(value.data) != symbol) {
        return; // of another function
    }
    uint32_t number = tfr_get32(value.data + 4);
    if (attribute == REGISTERS) {
        out->registers = number;
    } else if (attribute == FRAME_SIZE || attribute == STACK_SIZE) {
        out->local_bytes = number > out->local_bytes ? number : out->local_bytes;
    }
}

static const char *read_attributes(tfr_str list, uint32_t symbol, tfr_cubin *out) {
    while (list.len >= 4) {
        const unsigned char *head = (const unsigned char *)list.data;
        size_t size = head[0] == FORMAT_SIZED ? head[2] | (size_t)head[3] << 8 : 0;
        if (size > list.len - 4) {
            return "its attributes are cut off";
        }
        take_attribute(head[1], (tfr_str){list.data + 4, size}, symbol, out);
        list.data += 4 + size;
        list.len -= 4 + size;
    }
    return NULL;
}

// "sm_90a" from the options that the assembler notes: "-v  -arch sm_90a -fmad false ".
static tfr_str noted_arch(const elf *e) {
    static const char option[] = "-arch ";
    Elf64_Shdr note;
    if (!find_section(e, ".note.nv.tkinfo", TFR_STR(""), &note)) {
        return (tfr_str){0};
    }
    tfr_str text = content(e, &note);
    const char *at = text.len ? memmem(text.data, text.len, option, sizeof option - 1) : NULL;
    if (!at) {
        return (tfr_str){0};
    }
    at += sizeof option - 1;
    size_t len = 0, left = (size_t)(text.data + text.len - at);
    while (len < left && at[len] != ' ' && at[len] != 0) {
        len++;
    }
    return (tfr_str){at, len};
}

const char *tfr_cubin_read(tfr_str bytes, tfr_cubin *out) {
    elf e;
    Elf64_Shdr s;
    uint32_t symbol = 0;
    *out = (tfr_cubin){0};
    const char *fault = open_elf(bytes, &e);
    fault = fault ? fault : find_kernel(&e, &symbol, &out->entry);
    if (fault) {
        return fault;
    }
    bool is_new = e.head.e_ident[EI_ABIVERSION] >= ABI_NEW;
    out->sm = (int)((is_new ? e.head.e_flags >> 8 : e.head.e_flags) & 0xffu);
    if (!out->sm) {
        return "it names no architecture";
    }
    out->arch = noted_arch(&e);
    if (!find_section(&e, ".text.", out->entry, &s) || s.sh_size == 0 || !content(&e, &s).len ||
        s.sh_size > UINT32_MAX) {
        return "its kernel has no code";
    }
    out->code_bytes = (uint32_t)s.sh_size;
    if (find_section(&e, ".nv.shared.", out->entry, &s)) {
        uint64_t own = out->sm >= 90 && s.sh_size >= RESERVED_SHARED ? RESERVED_SHARED : 0;
        if (s.sh_size - own > UINT32_MAX) {
            return "its shared memory is too large";
        }
        out->shared_bytes = (uint32_t)(s.sh_size - own);
    }
    if (find_section(&e, ".nv.local.", out->entry, &s)) {
        out->local_bytes = s.sh_size > UINT32_MAX ? UINT32_MAX : (uint32_t)s.sh_size;
    }
    if (!find_section(&e, ".nv.info", TFR_STR(""), &s) ||
        (fault = read_attributes(content(&e, &s), symbol, out)) != NULL ||
        !find_section(&e, ".nv.info.", out->entry, &s) ||
        (fault = read_attributes(content(&e, &s), symbol, out)) != NULL) {
        return fault ? fault : "its attributes are missing";
    }
    return out->registers ? NULL : "it does not say how many registers it takes";
}

// ------------------------------------------------------------------ PTX
// The next word of `text` and what follows; words end at blanks and at (){}[],;.
static tfr_str take_word(tfr_str *text) {
    static const char marks[] = "(){}[],;";
    size_t at = 0, end;
    while (at < text->len && strchr(" \t\r\n", text->data[at]) && text->data[at]) {
        at++;
    }
    end = at;
    while (end < text->len && text->data[end] && !strchr(" \t\r\n", text->data[end]) &&
           !strchr(marks, text->data[end])) {
        end++;
    }
    end += end == at && end < text->len; // a mark stands alone
    tfr_str word = {text->data + at, end - at};
    *text = (tfr_str){text->data + end, text->len - end};
    return word;
}

// The number that `word` begins with, at most UINT32_MAX.
static uint32_t number_of(tfr_str word) {
    uint64_t value = 0;
    for (size_t i = 0; i < word.len && word.data[i] >= '0' && word.data[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(word.data[i] - '0');
        value = value > UINT32_MAX ? UINT32_MAX : value;
    }
    return (uint32_t)value;
}

// ".maxntid 256", ".maxntid 16, 8, 1"
static uint32_t ptx_threads(tfr_str line) {
    uint64_t count = 1;
    for (tfr_str word = take_word(&line); word.len; word = take_word(&line)) {
        if (word.data[0] >= '0' && word.data[0] <= '9') {
            count *= number_of(word);
            count = count > UINT32_MAX ? UINT32_MAX : count;
        } else if (word.data[0] != ',') {
            break;
        }
    }
    return (uint32_t)count;
}

// ".align 16 .b8 name[1200];" behind ".shared": its place and size are added up as the assembler
// lays variables out.
static void add_shared(tfr_str line, uint32_t *total) {
    uint64_t align = 1, size = 0, count = 1;
    for (tfr_str word = take_word(&line); word.len; word = take_word(&line)) {
        if (tfr_str_eq(word, TFR_STR(".align"))) {
            align = number_of(take_word(&line));
        } else if (word.len > 2 && word.data[0] == '.' && strchr("bsuf", word.data[1])) {
            size = number_of((tfr_str){word.data + 2, word.len - 2}) / 8;
        } else if (word.data[0] == '[') {
            count *= number_of(take_word(&line));
            count = count > UINT32_MAX ? UINT32_MAX : count;
        }
    }
    align = align && align <= 4096 ? align : 1;
    uint64_t end = (*total + align - 1) / align * align + size * count;
    *total = end > UINT32_MAX ? UINT32_MAX : (uint32_t)end;
}

static void read_line(tfr_str line, tfr_cubin *out, size_t *kernels) {
    tfr_str rest = line, word = take_word(&rest);
    while (tfr_str_eq(word, TFR_STR(".visible")) || tfr_str_eq(word, TFR_STR(".weak"))) {
        word = take_word(&rest);
    }
    if (tfr_str_eq(word, TFR_STR(".target"))) {
        out->arch = take_word(&rest);
        bool sm = starts_with(out->arch, "sm_");
        uint32_t number = sm ? number_of((tfr_str){out->arch.data + 3, out->arch.len - 3}) : 0;
        out->sm = number <= INT_MAX ? (int)number : 0;
    } else if (tfr_str_eq(word, TFR_STR(".entry"))) {
        out->entry = take_word(&rest);
        (*kernels)++;
    } else if (tfr_str_eq(word, TFR_STR(".maxntid")) || tfr_str_eq(word, TFR_STR(".reqntid"))) {
        out->max_threads = ptx_threads(rest);
    } else if (tfr_str_eq(word, TFR_STR(".shared"))) {
        add_shared(rest, &out->shared_bytes);
    }
}

const char *tfr_ptx_read(tfr_str text, tfr_cubin *out) {
    size_t kernels = 0;
    *out = (tfr_cubin){0};
    if (text.len == 0) {
        return "it is empty";
    }
    if (memchr(text.data, 0, text.len)) {
        return "it is no text";
    }
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.data) - at : text.len - at;
        read_line((tfr_str){text.data + at, len}, out, &kernels);
        at += len + 1;
    }
    if (!out->sm) {
        return "it is no PTX";
    }
    if (kernels != 1) {
        return kernels ? "it holds several kernels" : "it holds no kernel";
    }
    return is_name(out->entry) ? NULL : "its kernel's name is no name";
}

// ------------------------------------------------------------------ both
const char *tfr_cubin_check(tfr_str binary, const tfr_cuda_target *target, tfr_cubin *out) {
    const char *fault = target->ptx ? tfr_ptx_read(binary, out) : tfr_cubin_read(binary, out);
    if (fault) {
        return fault;
    }
    bool same = out->sm == target->major * 10 + target->minor;
    if (!target->ptx && out->arch.len) {
        same = same && tfr_str_eq(out->arch, tfr_str_from(target->name));
    }
    if (!same) {
        return "it is for another architecture";
    }
    return out->max_threads ? NULL : "it has no __launch_bounds__";
}
