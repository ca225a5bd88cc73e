// The templates of codegen_templates/ compiled with the program, without any specialisation: what
// runs when there is no compiler, or not yet. The definitions are written by CMake.
#ifndef TFR_GENERIC_H
#define TFR_GENERIC_H

#include <stdbool.h>

#include "codegen_templates/kernel.h"

// `avx2`: the build for x86-64 processors with AVX2 and FMA, where there is one. NULL: there is no
// template of that name.
const tfr_kernel *tfr_generic_find(const char *template_name, bool avx2);

#endif
