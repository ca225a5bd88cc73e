// CPUID by hand: the builtins of the compilers know different names. A vector feature counts only
// when the system saves its registers (XGETBV), as a hypervisor may hide that.
#define _GNU_SOURCE // memmem
#include "jit/cpu.h"

#include "jit/warn.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#define ARCH "x86_64:"
#define ELF_MACHINE 62u
#elif defined(__aarch64__)
#define ARCH "aarch64:"
#define ELF_MACHINE 183u
#else
#define ARCH "other:"
#define ELF_MACHINE 0u // not checked
#endif

typedef enum isa { ISA_BASELINE, ISA_AVX2, ISA_AVX512, ISA_NEON, ISA_COUNT } isa;

static const struct {
    const char *name; // in TFR_HOST_ISA
    tfr_cpu cpu;
} table[ISA_COUNT] = {
    [ISA_BASELINE] = {"baseline", {{ARCH, sizeof ARCH - 1}, {"", 0}}},
    [ISA_AVX2] = {"avx2",
                  {{ARCH "avx2,fma,f16c,bmi2", sizeof ARCH "avx2,fma,f16c,bmi2" - 1},
                   {"-mavx2 -mfma -mf16c -mbmi2", sizeof "-mavx2 -mfma -mf16c -mbmi2" - 1}}},
    [ISA_AVX512] =
        {"avx512",
         {{ARCH "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl",
           sizeof ARCH "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl" - 1},
          {"-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl",
           sizeof "-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl" - 1}}},
    [ISA_NEON] = {"neon", {{ARCH "neon", sizeof ARCH "neon" - 1}, {"", 0}}},
};

#if defined(__x86_64__)
static unsigned xcr0(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(tfr_str feature) {
    static const struct {
        const char *name;
        int leaf, reg, bit; // reg: 1 ebx, 2 ecx
        unsigned saved;     // bits of XCR0 that it needs
    } features[] = {
        {"fma", 1, 2, 12, 6},         {"f16c", 1, 2, 29, 6},        {"avx2", 7, 1, 5, 6},
        {"bmi2", 7, 1, 8, 0},         {"avx512f", 7, 1, 16, 0xe6},  {"avx512dq", 7, 1, 17, 0xe6},
        {"avx512bw", 7, 1, 30, 0xe6}, {"avx512vl", 7, 1, 31, 0xe6},
    };
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        if (!tfr_str_eq(feature, tfr_str_from(features[i].name))) {
            continue;
        }
        unsigned r[4];
        if (!__get_cpuid(1, &r[0], &r[1], &r[2], &r[3])) {
            return false;
        }
        bool saves = r[2] & 1u << 27; // OSXSAVE: xgetbv may be used
        if (features[i].leaf == 7 && !__get_cpuid_count(7, 0, &r[0], &r[1], &r[2], &r[3])) {
            return false;
        }
        unsigned saved = features[i].saved;
        return r[features[i].reg] >> features[i].bit & 1u &&
               (saved == 0 || (saves && (xcr0() & saved) == saved));
    }
    return false;
}
#elif defined(__aarch64__)
static bool has(tfr_str feature) { return tfr_str_eq(feature, TFR_STR("neon")); }
#else
static bool has(tfr_str feature) {
    (void)feature;
    return false;
}
#endif

bool tfr_cpu_chose_avx2(void) {
    tfr_str target = tfr_cpu_choose()->target;
    return memmem(target.data, target.len, "avx2", 4) != NULL;
}

bool tfr_cpu_runs(tfr_str target) {
    size_t at = sizeof ARCH - 1;
    if (target.len < at || memcmp(target.data, ARCH, at) != 0) {
        return false;
    }
    while (at < target.len) {
        const char *start = target.data + at;
        const char *comma = memchr(start, ',', target.len - at);
        size_t len = comma ? (size_t)(comma - start) : target.len - at;
        if (!has((tfr_str){start, len})) {
            return false;
        }
        at += len + (comma ? 1 : 0);
    }
    return true;
}

unsigned tfr_cpu_elf_machine(void) { return ELF_MACHINE; }

static const tfr_cpu *choose(void) {
    isa best = ISA_BASELINE;
    if (tfr_cpu_runs(table[ISA_NEON].cpu.target)) {
        best = ISA_NEON;
    } else if (tfr_cpu_runs(table[ISA_AVX2].cpu.target)) {
        best = ISA_AVX2;
    }
    const char *wanted = getenv("TFR_HOST_ISA");
    for (int i = 0; wanted && *wanted && i < ISA_COUNT; i++) {
        if (strcmp(wanted, table[i].name) == 0) {
            if (tfr_cpu_runs(table[i].cpu.target)) {
                return &table[i].cpu;
            }
            tfr_warn(TFR_WARN_ISA,
                     "TFR_HOST_ISA=%s: this CPU lacks it; kernels are compiled for %s", wanted,
                     table[best].name);
            return &table[best].cpu;
        }
    }
    if (wanted && *wanted) {
        tfr_warn(TFR_WARN_ISA, "TFR_HOST_ISA is baseline, avx2 or avx512, not %s; ignored", wanted);
    }
    return &table[best].cpu;
}

const tfr_cpu *tfr_cpu_choose(void) {
    static _Atomic(const tfr_cpu *) chosen;
    const tfr_cpu *none = NULL;
    if (!atomic_load(&chosen)) {
        (void)atomic_compare_exchange_strong(&chosen, &none, choose());
    }
    return atomic_load(&chosen);
}

// A value of /proc/cpuinfo: "model name : AMD EPYC". False: there is none.
static bool cpuinfo(const char *name, char *out, size_t size) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool found = false;
    char line[512];
    while (file && !found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, name, strlen(name)) == 0) {
            char *value = colon + 1 + strspn(colon + 1, " \t");
            value[strcspn(value, "\n")] = 0;
            (void)snprintf(out, size, "%s", value);
            found = *value != 0;
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return found;
}

void tfr_cpu_model(char *out, size_t size) {
#if defined(__x86_64__)
    unsigned r[12];
    if (__get_cpuid(0x80000002, &r[0], &r[1], &r[2], &r[3]) &&
        __get_cpuid(0x80000003, &r[4], &r[5], &r[6], &r[7]) &&
        __get_cpuid(0x80000004, &r[8], &r[9], &r[10], &r[11])) {
        char name[sizeof r + 1] = {0};
        memcpy(name, r, sizeof r);
        size_t len = strlen(name);
        while (len > 0 && name[len - 1] == ' ') {
            name[--len] = 0;
        }
        (void)snprintf(out, size, "%s", name + strspn(name, " "));
        if (size && *out) {
            return;
        }
    }
#endif
    if (!cpuinfo("model name", out, size) && !cpuinfo("CPU part", out, size)) {
        (void)snprintf(out, size, "unknown");
    }
}
