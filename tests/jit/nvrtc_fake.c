// A libnvrtc that does what a case of test_nvrtc.py asks for: its archs are ARCHS, its version
// MAJOR.0; compiling takes SECONDS and gives the file CUBIN. Ends the process when it is unloaded
// while it compiles, as the real one would crash.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef MAJOR
#define MAJOR 13
#endif
#ifndef SECONDS
#define SECONDS 0
#endif
#ifndef ARCHS
#define ARCHS 75, 80, 86, 89, 90, 100, 103, 120
#endif

static const int archs[] = {ARCHS};
static char cubin[65536];
static size_t size;
static volatile pid_t compiling; // the process that does

__attribute__((destructor)) static void unload(void) {
    if (compiling == getpid()) {
        _Exit(99);
    }
}

int nvrtcVersion(int *major, int *minor) {
    *major = MAJOR;
    *minor = 0;
    return 0;
}
int nvrtcGetNumSupportedArchs(int *count) {
    *count = sizeof archs / sizeof *archs;
    return 0;
}
int nvrtcGetSupportedArchs(int *out) {
    memcpy(out, archs, sizeof archs);
    return 0;
}
int nvrtcCreateProgram(void **program, const char *source, const char *name, int n,
                       const char *const *h, const char *const *i) {
    (void)source, (void)name, (void)n, (void)h, (void)i;
    *program = cubin;
    return 0;
}
int nvrtcCompileProgram(void *program, int n, const char *const *options) {
    struct timespec time = {SECONDS, 0};
    (void)program, (void)n, (void)options;
    compiling = getpid();
    nanosleep(&time, NULL);
    FILE *file = fopen(CUBIN, "rb");
    size = file ? fread(cubin, 1, sizeof cubin, file) : 0;
    if (file) {
        fclose(file);
    }
    compiling = 0;
    return 0;
}
int nvrtcGetProgramLogSize(void *program, size_t *out) {
    (void)program;
    *out = 1;
    return 0;
}
int nvrtcGetProgramLog(void *program, char *log) {
    (void)program;
    *log = 0;
    return 0;
}
int nvrtcGetCUBINSize(void *program, size_t *out) {
    (void)program;
    *out = size;
    return 0;
}
int nvrtcGetCUBIN(void *program, char *out) {
    (void)program;
    memcpy(out, cubin, size);
    return 0;
}
int nvrtcGetPTXSize(void *program, size_t *out) { return nvrtcGetCUBINSize(program, out); }
int nvrtcGetPTX(void *program, char *out) { return nvrtcGetCUBIN(program, out); }
int nvrtcDestroyProgram(void **program) {
    *program = NULL;
    return 0;
}
