// Cubins as NVRTC 13 (machine code of the new layout) and older ones make them, put together here
// from their parts, and PTX. That real ones look so is tests/jit/test_nvrtc.py's matter.
#include "jit/cubin.h"

#include "tests/unit/check.h"

#include <elf.h>

#define MOST 12

typedef struct part {
    const char *name;
    uint32_t type;
    tfr_str bytes;
    uint64_t size; // of NOBITS
    uint32_t link;
} part;

// What a cubin is made of; a case changes what it is about.
typedef struct image {
    unsigned abi;
    uint32_t flags;
    part parts[MOST];
    size_t count;
} image;

static tfr_arena *arena;

#define ATTRIBUTE(number, ...) "\x04" number __VA_ARGS__
#define INFO                                                                                       \
    ATTRIBUTE("\x2f", "\x08\x00\x02\x00\x00\x00\x28\x00\x00\x00") /* 40 registers */               \
    ATTRIBUTE("\x2f", "\x08\x00\x01\x00\x00\x00\xff\x00\x00\x00") /* of another function */        \
    ATTRIBUTE("\x11", "\x08\x00\x02\x00\x00\x00\x00\x00\x00\x00") /* no frame */                   \
    ATTRIBUTE("\x12", "\x08\x00\x02\x00\x00\x00\x00\x00\x00\x00") /* no stack */
#define FRAME                                                                                      \
    ATTRIBUTE("\x11", "\x08\x00\x02\x00\x00\x00\xa0\x00\x00\x00")                                  \
    ATTRIBUTE("\x12", "\x08\x00\x02\x00\x00\x00\xb0\x00\x00\x00")
#define KERNEL_INFO                                                                                \
    "\x03\x1b\xff\x00" /* its value is in itself */                                                \
        ATTRIBUTE("\x05",                                                                          \
                  "\x0c\x00\x80\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00") /* 128 x 2 */
#define TOOLS "\0\0ptxas\0-v -arch sm_90a -fmad false \0"
#define BYTES(text)                                                                                \
    { text, sizeof text - 1 }

static Elf64_Sym symbols[3]; // none, a device function, the kernel

static image usual(void) {
    symbols[1] = (Elf64_Sym){.st_name = 1, .st_info = STT_FUNC, .st_shndx = 7};
    symbols[2] =
        (Elf64_Sym){.st_name = 5, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_other = 0x10};
    return (image){.abi = 8,
                   .flags = 0x6005a04,
                   .parts = {{"", SHT_NULL, {0}, 0, 0},
                             {".shstrtab", SHT_STRTAB, {0}, 0, 0}, // filled in
                             {".strtab", SHT_STRTAB, BYTES("\0one\0tfr_k\0"), 0, 0},
                             {".symtab", SHT_SYMTAB, {(const char *)symbols, sizeof symbols}, 0, 2},
                             {".note.nv.tkinfo", SHT_NOTE, BYTES(TOOLS), 0, 0},
                             {".nv.info", 0x70000000, BYTES(INFO), 0, 3},
                             {".nv.info.tfr_k", 0x70000000, BYTES(KERNEL_INFO), 0, 3},
                             {".text.tfr_k", SHT_PROGBITS, BYTES("0123456789abcdef"), 0, 3},
                             {".nv.shared.tfr_k", SHT_NOBITS, {0}, 1200 + 1024, 0}},
                   .count = 9};
}

static tfr_str make(const image *im) {
    tfr_buf out = {.arena = arena}, names = {.arena = arena};
    Elf64_Shdr table[MOST] = {0};
    Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x41,
                                   (unsigned char)im->abi},
                       .e_type = ET_EXEC,
                       .e_machine = 190,
                       .e_flags = im->flags,
                       .e_ehsize = sizeof head,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = (Elf64_Half)im->count,
                       .e_shstrndx = 1};
    tfr_buf_add(&out, (const char *)&head, sizeof head);
    for (size_t i = 0; i < im->count; i++) {
        const part *p = &im->parts[i];
        table[i] = (Elf64_Shdr){.sh_name = (Elf64_Word)names.len,
                                .sh_type = p->type,
                                .sh_offset = out.len,
                                .sh_size = p->size ? p->size : p->bytes.len,
                                .sh_link = p->link};
        tfr_buf_add(&names, p->name, strlen(p->name) + 1);
        tfr_buf_add_str(&out, p->bytes);
    }
    table[1].sh_offset = out.len;
    table[1].sh_size = names.len;
    tfr_buf_add_str(&out, tfr_buf_str(&names));
    head.e_shoff = out.len;
    tfr_buf_add(&out, (const char *)table, im->count * sizeof *table);
    memcpy(out.data, &head, sizeof head);
    return tfr_buf_str(&out);
}

static const char *read_image(const image *im, tfr_cubin *out) {
    return tfr_cubin_read(make(im), out);
}

static void a_kernel(void) {
    tfr_cubin c;
    image im = usual();
    const char *fault = read_image(&im, &c);
    CHECK(!fault);
    CHECK_STR(c.entry, "tfr_k");
    CHECK_STR(c.arch, "sm_90a");
    CHECK_INT(c.sm, 90);
    CHECK_INT(c.registers, 40);
    CHECK_INT(c.shared_bytes, 1200);
    CHECK_INT(c.local_bytes, 0);
    CHECK_INT(c.max_threads, 256);
    CHECK_INT(c.code_bytes, 16);
}

static void both_layouts_of_flags(void) {
    tfr_cubin c;
    image im = usual();
    im.abi = 7;
    im.flags = 0x5a0d5a; // as CUDA 12 writes it for sm_90a
    CHECK(!read_image(&im, &c));
    CHECK_INT(c.sm, 90);
    im.abi = 8;
    im.flags = 0x6004b04;
    CHECK(!read_image(&im, &c));
    CHECK_INT(c.sm, 75);
    CHECK_INT(c.shared_bytes, 1200 + 1024); // nothing is reserved in there before sm_90
    im.flags = 0;
    CHECK_HAS(read_image(&im, &c), "names no architecture");
}

static void stack(void) {
    tfr_cubin c;
    image im = usual();
    im.parts[5].bytes = (tfr_str)BYTES(INFO FRAME);
    CHECK(!read_image(&im, &c));
    CHECK_INT(c.local_bytes, 0xb0);
    im.parts[5].bytes = (tfr_str)BYTES(INFO);
    im.parts[im.count++] = (part){".nv.local.tfr_k", SHT_NOBITS, {0}, 48, 0};
    CHECK(!read_image(&im, &c));
    CHECK_INT(c.local_bytes, 48);
}

static void check_fault(const image *im, const char *fault) {
    tfr_cubin c;
    const char *found = read_image(im, &c);
    CHECK_HAS(found ? found : "none", fault);
}

static void what_is_refused(void) {
    image im = usual();
    tfr_cubin c;
    CHECK_HAS(tfr_cubin_read(TFR_STR(""), &c), "it is empty");
    CHECK_HAS(tfr_cubin_read(TFR_STR("\177ELF"), &c), "it is no ELF file");
    symbols[1].st_other = 0x10;
    check_fault(&im, "several kernels");
    symbols[1].st_other = symbols[2].st_other = 0;
    check_fault(&im, "no kernel");
    im = usual();
    symbols[2].st_name = 1000;
    check_fault(&im, "no name");
    im = usual();
    im.parts[2].bytes = (tfr_str)BYTES("\0one\0tfr k\0");
    check_fault(&im, "no name");
    im = usual();
    im.parts[7].bytes.len = 0;
    check_fault(&im, "no code");
    im.parts[7].name = ".text.other";
    check_fault(&im, "no code");
    im = usual();
    im.parts[6].name = ".nv.info.other";
    check_fault(&im, "attributes are missing");
    im = usual();
    im.parts[5].bytes.len -= 1;
    check_fault(&im, "attributes are cut off");
    im.parts[5].bytes = (tfr_str)BYTES("");
    check_fault(&im, "how many registers");
    im = usual();
    im.parts[8].size = UINT64_C(1) << 40;
    check_fault(&im, "shared memory is too large");
}

// Every cut and every changed byte is refused or read, never beyond its bytes (under sanitizers).
static void damage(void) {
    image im = usual();
    tfr_str whole = make(&im);
    tfr_cubin c;
    for (size_t len = 0; len < whole.len; len++) {
        char *cut = tfr_alloc(len + 1);
        memcpy(cut, whole.data, len);
        CHECK(tfr_cubin_read((tfr_str){cut, len}, &c) != NULL); // the section table comes last
        tfr_release(cut);
    }
    char *changed = tfr_alloc(whole.len);
    memcpy(changed, whole.data, whole.len);
    for (size_t i = 0; i < whole.len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            changed[i] = (char)(whole.data[i] ^ 1 << bit);
            const char *fault = tfr_cubin_read((tfr_str){changed, whole.len}, &c);
            CHECK(fault || (c.registers && c.entry.len));
        }
        changed[i] = whole.data[i];
    }
    tfr_release(changed);
}

#define PTX                                                                                        \
    "//\n// Generated by NVIDIA NVVM Compiler\n\n.version 9.0\n.target sm_80\n"                    \
    ".address_size 64\n\n\t// .globl\ttfr_k\n\n"                                                   \
    ".visible .entry tfr_k(\n\t.param .u64 tfr_k_param_0\n)\n.maxntid 64, 2, 1\n{\n"               \
    "\t.shared .align 1 .b8 flags[3];\n\t.shared .align 4 .b8 s[1200];\n"                          \
    "\t.shared .align 8 .f64 sum;\n\tret;\n}\n"

static void ptx(void) {
    tfr_cubin c;
    CHECK(!tfr_ptx_read(TFR_STR(PTX), &c));
    CHECK_STR(c.entry, "tfr_k");
    CHECK_STR(c.arch, "sm_80");
    CHECK_INT(c.sm, 80);
    CHECK_INT(c.max_threads, 128);
    CHECK_INT(c.shared_bytes, 1216);
    CHECK_INT(c.registers, 0);
    CHECK_HAS(tfr_ptx_read(TFR_STR(""), &c), "it is empty");
    CHECK_HAS(tfr_ptx_read(TFR_STR(".target sm_80\0"), &c), "it is no text");
    CHECK_HAS(tfr_ptx_read(TFR_STR("hello\n"), &c), "it is no PTX");
    CHECK_HAS(tfr_ptx_read(TFR_STR(".target sm_80\n"), &c), "no kernel");
    CHECK_HAS(tfr_ptx_read(TFR_STR(PTX ".entry other()\n{\n}\n"), &c), "several kernels");
    CHECK_HAS(tfr_ptx_read(TFR_STR(".target sm_80\n.entry (\n"), &c), "no name");
    CHECK(!tfr_ptx_read(TFR_STR(".target sm_80\n.entry k()\n.maxntid 999999999999999\n"), &c));
    CHECK_INT(c.max_threads, UINT32_MAX);
    CHECK_HAS(tfr_ptx_read(TFR_STR(".target sm_3000000000\n.entry k()\n"), &c), "no PTX");
    CHECK_HAS(tfr_ptx_read(TFR_STR(".target sm_\n.entry k()\n"), &c), "no PTX");
    CHECK(!tfr_ptx_read(TFR_STR(".target sm_80\n.entry k()\n"
                                ".shared .b8 x[4000000000][4000000000][4000000000];\n"),
                        &c));
    CHECK_INT(c.shared_bytes, UINT32_MAX);
}

static void check_for(tfr_str binary, const char *target, const char *fault) {
    tfr_cubin c;
    const char *found = tfr_cubin_check(binary, tfr_cuda_target_find(tfr_str_from(target)), &c);
    CHECK_HAS(found ? found : "none", fault);
}

static void held_to_the_target(void) {
    image im = usual();
    check_for(make(&im), "sm_90a", "none");
    check_for(make(&im), "sm_89", "another architecture");
    im.parts[4].bytes = (tfr_str)BYTES("ptxas\0-v -arch sm_90 \0");
    check_for(make(&im), "sm_90a", "another architecture");
    im.parts[4].bytes = (tfr_str)BYTES("ptxas\0"); // older ones note nothing
    check_for(make(&im), "sm_90a", "none");
    im.parts[6].bytes = (tfr_str)BYTES("\x03\x1b\xff\x00");
    check_for(make(&im), "sm_90a", "no __launch_bounds__");
    check_for(TFR_STR(PTX), "compute_80", "none");
    check_for(TFR_STR(PTX), "compute_86", "another architecture");
    check_for(TFR_STR(PTX), "sm_80", "no ELF file");
}

static const char *for_device(int major, int minor) {
    const tfr_cuda_target *t = tfr_cuda_target_for(major, minor);
    return t ? t->name : "none";
}

static void targets(void) {
    size_t count;
    const tfr_cuda_target *all = tfr_cuda_targets(&count);
    CHECK(count >= 16);
    for (size_t i = 0; i < count; i++) {
        CHECK(tfr_cuda_target_find(tfr_str_from(all[i].name)) == &all[i]);
        CHECK(all[i].bf16 == (all[i].major >= 8));
    }
    CHECK(!tfr_cuda_target_find(TFR_STR("sm_90")) && !tfr_cuda_target_find(TFR_STR("")));
    CHECK_STR(tfr_str_from(for_device(9, 0)), "sm_90a");
    CHECK_STR(tfr_str_from(for_device(10, 3)), "sm_103a");
    CHECK_STR(tfr_str_from(for_device(8, 7)), "compute_86");
    CHECK_STR(tfr_str_from(for_device(11, 0)), "compute_103");
    CHECK_STR(tfr_str_from(for_device(12, 1)), "compute_120");
    CHECK_STR(tfr_str_from(for_device(20, 0)), "compute_120");
    CHECK_STR(tfr_str_from(for_device(7, 0)), "none");
}

int main(void) {
    arena = tfr_arena_new();
    a_kernel();
    both_layouts_of_flags();
    stack();
    what_is_refused();
    damage();
    ptx();
    held_to_the_target();
    targets();
    tfr_arena_free(arena);
    return check_failures != 0;
}
