// dlopen wants a path. A memory file has one, /proc/self/fd/N, and nobody can change it between the
// check of its digest and its loading; it works on file systems mounted noexec too. Where there are
// no memory files, or no /proc: a file in a private folder, removed at once.
#define _GNU_SOURCE // memfd_create
#include "jit/load.h"

#include "jit/cpu.h"
#include "jit/folder.h"
#include "jit/process.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

const char *tfr_load_fault(tfr_str binary) {
    Elf64_Ehdr head;
    if (binary.len < sizeof head || memcmp(binary.data, ELFMAG, SELFMAG) != 0) {
        return "it is no ELF file";
    }
    memcpy(&head, binary.data, sizeof head);
    unsigned machine = tfr_cpu_elf_machine();
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || (machine && head.e_machine != machine)) {
        return "it is for another architecture";
    }
    if (head.e_type != ET_DYN) {
        return "it is no shared object";
    }
    // The section table comes last: a file cut off by a full disk lacks it.
    if (head.e_shoff > binary.len ||
        (uint64_t)head.e_shnum * head.e_shentsize > binary.len - head.e_shoff) {
        return "it is cut off";
    }
    return NULL;
}

// The loader takes two equal paths for one library, and numbers of descriptors come again. So each
// path is spelled in its own way: one bit of a counter for each "./" or "/" in it.
static void unique_path(int fd, char *out, size_t size) {
    static atomic_uint count;
    unsigned number = atomic_fetch_add(&count, 1);
    size_t len = (size_t)snprintf(out, size, "/proc/self/fd/");
    for (int bit = 0; bit < 32 && number >> bit; bit++) {
        len += (size_t)snprintf(out + len, size - len, "%s", number >> bit & 1u ? "./" : "/");
    }
    (void)snprintf(out + len, size - len, "%d", fd);
}

static int memory_file(tfr_str binary, tfr_str name) {
#if defined(MFD_ALLOW_SEALING)
    char shown[64];
    size_t len = 0;
    for (; len < name.len && len + 1 < sizeof shown && name.data[len] > ' '; len++) {
        shown[len] = name.data[len] == '/' ? '_' : name.data[len];
    }
    shown[len] = 0;
    const unsigned exec = 0x10; // MFD_EXEC, of Linux 6.3
    int fd = memfd_create(shown, MFD_CLOEXEC | MFD_ALLOW_SEALING | exec);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(shown, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    int error = fd >= 0 ? tfr_write_all(fd, binary) : 0;
    if (error) {
        (void)close(fd);
        errno = error;
        return -1;
    }
    if (fd >= 0) {
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    }
    return fd;
#else
    (void)binary;
    (void)name;
    errno = ENOSYS;
    return -1;
#endif
}

static void *open_memory_file(tfr_str binary, tfr_str name, char *why, size_t size) {
    char path[128];
    int fd = memory_file(binary, name);
    if (fd < 0) {
        (void)snprintf(why, size, "memory files: %s", strerror(errno));
        return NULL;
    }
    unique_path(fd, path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *error = dlerror();
        (void)snprintf(why, size, "%s", error ? error : "unknown");
    }
    (void)close(fd);
    return library;
}

static void *open_private_file(tfr_str binary, char *why, size_t size) {
    tfr_scratch scratch;
    void *library = NULL;
    for (int attempt = 0; !library && tfr_scratch_make(&scratch, &attempt);) {
        char path[sizeof scratch.path + 16];
        (void)snprintf(path, sizeof path, "%s/kernel.so", scratch.path);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
        bool written = fd >= 0 && tfr_write_all(fd, binary) == 0;
        if (fd >= 0) {
            (void)close(fd);
        }
        if (written) {
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
        if (written && !library) {
            const char *error = dlerror();
            (void)snprintf(why, size, "%s", error ? error : "unknown");
        }
        tfr_scratch_remove(&scratch);
    }
    return library;
}

#if defined(__x86_64__)
static unsigned control_word(void) { return __builtin_ia32_stmxcsr() & ~0x3fu; } // no flags
static void set_control_word(unsigned word) { __builtin_ia32_ldmxcsr(word); }
#else
static unsigned control_word(void) { return 0; }
static void set_control_word(unsigned word) { (void)word; }
#endif

tfr_load_result tfr_load(tfr_str binary, tfr_str name, const tfr_kernel **out, char *why,
                         size_t why_size) {
    const char *fault = tfr_load_fault(binary);
    if (fault) {
        (void)snprintf(why, why_size, "%s", fault);
        return TFR_LOAD_BAD;
    }
    // Constructors run at dlopen; those of -ffast-math set flush-to-zero, should a wrapper of the
    // compiler have added it.
    unsigned word = control_word();
    void *library = open_memory_file(binary, name, why, why_size);
    if (!library) {
        library = open_private_file(binary, why, why_size);
    }
    if (control_word() != word) {
        set_control_word(word);
    }
    if (!library) {
        return TFR_LOAD_REFUSED;
    }
    const tfr_kernel *kernel = dlsym(library, "tfr_kernel_entry");
    if (!kernel || kernel->abi != TFR_KERNEL_ABI || !kernel->plan || !kernel->run) {
        (void)snprintf(why, why_size, "it holds no kernel of this version");
        (void)dlclose(library);
        return TFR_LOAD_BAD;
    }
    *out = kernel;
    return TFR_LOADED;
}
