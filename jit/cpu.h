// What this machine's CPU is compiled for: the target of a key, the compiler's flags for it, and
// whether the machine can run what was compiled for another. Knows no compiler and no cache.
#ifndef TFR_CPU_H
#define TFR_CPU_H

#include "runtime/arena.h"

// "x86_64:avx2,fma,f16c,bmi2"; "x86_64:" with nothing behind it is the baseline. AVX2 is the
// default on AVX-512 machines too. TFR_HOST_ISA=baseline|avx2|avx512 asks for another; one that the
// CPU lacks is refused with a warning.
typedef struct tfr_cpu {
    tfr_str target;
    tfr_str flags; // "-mavx2 -mfma -mf16c -mbmi2"
} tfr_cpu;

const tfr_cpu *tfr_cpu_choose(void);
bool tfr_cpu_chose_avx2(void);
// Every feature of `target` is there, and the architecture is this one.
bool tfr_cpu_runs(tfr_str target);
// The e_machine of this architecture's ELF files.
unsigned tfr_cpu_elf_machine(void);

// The CPU's name for people and for choices, "AMD EPYC 7B13"; "unknown" where there is none.
void tfr_cpu_model(char *out, size_t size);

#endif
