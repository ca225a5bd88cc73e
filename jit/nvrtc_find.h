// Where libnvrtc is, without loading it: the library with CUDA's compiler that a Python package, a
// toolkit or the system has put somewhere. Knows nothing of what is in it.
#ifndef TFR_NVRTC_FIND_H
#define TFR_NVRTC_FIND_H

#include "jit/folder.h"

// The path of the library, the first of: TFR_NVRTC (a file, or the folder that it is in); one that
// this process has loaded; the Python environment; the toolkit; the system's folders. False: there
// is none in any of these.
bool tfr_nvrtc_locate(char out[TFR_PATH_SIZE]);

// The library of the built-in functions beside it, "libnvrtc-builtins.so.13.0"; false: none.
bool tfr_nvrtc_builtins(const char *library, char out[TFR_PATH_SIZE]);

#endif
