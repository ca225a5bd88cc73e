// Words that directives and opcodes share.
#ifndef PTXSIM_PTX_DECODE_H
#define PTXSIM_PTX_DECODE_H

#include <stddef.h>

int ptx_type_find(const char *word, size_t length);  // PTX_NO_TYPE: none
int ptx_space_find(const char *word, size_t length); // PTX_GENERIC: none
#endif
