// The control functions, and what the driver's parts share: the state, its lock, handles, faults.
#include "ptxsim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_state.h"

fake_state fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .devices = 1,
    .major = 9,
    .processors = 4,
    .driver = 13000,
    .step_limit = 100000000,
};

// Of each API function.
static struct {
    const char *name;
    uint64_t calls;
    int fault, after, times;
} functions[] = {
#define X(name, parameters) {#name, 0, 0, 0, 0},
    FAKE_FUNCTIONS(X)
#undef X
};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions };

void fake_lock(void) { pthread_mutex_lock(&fake.lock); }

void fake_unlock(int *unused) {
    (void)unused;
    pthread_mutex_unlock(&fake.lock);
}

static void after_fork_in_child(void) {
    fake.forked = fake.initialised;
    fake_unlock(NULL);
}
static void after_fork_in_parent(void) { fake_unlock(NULL); }

// A fork finds the lock free, and a child of a process that has called cuInit has no driver.
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(fake_lock, after_fork_in_parent, after_fork_in_child);
}

#define LOCKED                                                                                     \
    __attribute__((cleanup(fake_unlock))) int locked = 0;                                          \
    (void)locked;                                                                                  \
    fake_lock();

static int function_index(const char *name) {
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        if (!strcmp(functions[i].name, name)) {
            return i;
        }
    }
    return -1;
}

CUresult fake_enter(const char *name, bool from_start) {
    int i = function_index(name);
    functions[i].calls++;
    if (functions[i].times) {
        if (functions[i].after > 0) {
            functions[i].after--;
        } else {
            functions[i].times -= functions[i].times > 0;
            return functions[i].fault;
        }
    }
    bool usable = fake.initialised ? !fake.forked : from_start;
    return usable ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

fake_object *fake_object_new(int kind, fake_object *context) {
    fake_object *object = calloc(1, sizeof *object);
    if (!object) {
        abort();
    }
    object->kind = kind;
    object->live = true;
    object->context = context;
    object->next = fake.objects;
    fake.objects = object;
    return object;
}

bool fake_alive(const fake_object *object, int kind) {
    return object->live && object->kind == kind;
}

bool fake_is(const fake_object *handle, int kind) {
    for (const fake_object *o = fake.objects; o; o = o->next) {
        if (o == handle) {
            return fake_alive(o, kind);
        }
    }
    return false;
}

// Lookups

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define E(name, text)                                                                              \
    { name, #name, text }
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    E(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
      "the provided PTX was compiled with an unsupported toolchain."),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    E(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    E(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
      "operation failed due to a previous error during capture"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
      "operation would make the legacy stream depend on a capturing blocking stream"),
    E(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef E
};

static CUresult error_text(CUresult code, const char **out, bool name) {
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == code) {
            *out = name ? errors[i].name : errors[i].text;
        }
    }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    FAKE_ENTER(true)
    return error_text(error, name, true);
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    FAKE_ENTER(true)
    return error_text(error, text, false);
}

// Takes names with and without the suffix of their version, as the real one is asked without.
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                             int *status) {
    FAKE_ENTER(true)
    (void)version, (void)flags;
    static const struct {
        const char *name;
        void (*address)(void);
    } exported[] = {
#define X(f, parameters) {#f, (void (*)(void))f},
        FAKE_FUNCTIONS(X)
#undef X
    };
    enum { FOUND, NOT_FOUND };
    if (!name || !function) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *function = NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof exported / sizeof *exported; i++) {
        const char *rest = exported[i].name + length;
        if (!strncmp(exported[i].name, name, length) && (!*rest || !strcmp(rest, "_v2"))) {
            memcpy(function, &exported[i].address, sizeof *function);
        }
    }
    if (status) {
        *status = *function ? FOUND : NOT_FOUND;
    }
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// NVRTC asks for tables that no header declares, and crashes where this function is missing.
CUresult cuGetExportTable(const void **table, const void *uuid) {
    FAKE_ENTER(true)
    (void)uuid;
    if (table) {
        *table = NULL;
    }
    return CUDA_ERROR_NOT_FOUND;
}

// Configuration

static void reset(void) {
    for (fake_object *o = fake.objects; o; o = o->next) {
        o->live = false; // the memory stays: a stale handle must be seen as one
    }
    memset(fake.primary, 0, sizeof fake.primary);
    for (int i = 0; i < fake.program_count; i++) {
        ptx_program_free(fake.programs[i].code);
        free(fake.programs[i].text);
    }
    free(fake.programs);
    fake.programs = NULL;
    fake.program_count = 0;
    ptx_memory_clear(&fake.memory);
    memset(&fake.last, 0, sizeof fake.last);
    fake.last_kernel[0] = '\0';
    fake.last_error[0] = '\0';
    fake.launch_count = 0;
    fake.initialised = fake.forked = false;
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        functions[i].calls = 0;
        functions[i].fault = functions[i].after = functions[i].times = 0;
    }
}

static bool set(const char *key, const char *value) {
    char *end;
    long number = strtol(value, &end, 10);
    if (*end && (strcmp(key, "capability") != 0 || *end != '.')) {
        return false;
    }
    if (!strcmp(key, "devices") && number >= 0 && number <= FAKE_MAX_DEVICES) {
        fake.devices = (int)number;
    } else if (!strcmp(key, "capability") && *end) {
        fake.major = (int)number;
        fake.minor = atoi(end + 1);
    } else if (!strcmp(key, "sms") && number > 0) {
        fake.processors = (int)number;
    } else if (!strcmp(key, "driver")) {
        fake.driver = (int)number;
    } else if (!strcmp(key, "strict")) {
        fake.memory.strict = number != 0;
    } else if (!strcmp(key, "warp_order")) {
        fake.warp_order = strtoull(value, NULL, 10);
    } else if (!strcmp(key, "steps") && number > 0) {
        fake.step_limit = (uint64_t)number;
    } else if (!strcmp(key, "reset")) {
        reset();
    } else {
        return false;
    }
    return true;
}

const char *ptxsim_configure(const char *settings) {
    LOCKED
    static char wrong[256];
    char key[64], value[64];
    int used;
    for (; sscanf(settings, " %63[^= ]=%63s%n", key, value, &used) == 2; settings += used) {
        if (!set(key, value)) {
            snprintf(wrong, sizeof wrong, "bad setting %s=%s", key, value);
            return wrong;
        }
    }
    settings += strspn(settings, " ");
    snprintf(wrong, sizeof wrong, "bad setting %.200s", settings);
    return *settings ? wrong : NULL;
}

void ptxsim_memory(const void *start, size_t bytes, int flags) {
    LOCKED
    ptx_memory_register(&fake.memory, (uintptr_t)start, bytes, flags);
}

void ptxsim_memory_clear(void) {
    LOCKED
    ptx_memory_clear(&fake.memory);
    for (fake_object *o = fake.objects; o; o = o->next) { // what the driver allocated stays known
        if (o->kind == FAKE_MEMORY && o->live) {
            ptx_memory_register(&fake.memory, (uintptr_t)o->data, o->bytes,
                                PTX_READABLE | PTX_WRITABLE | PTX_WRITTEN);
        }
    }
    for (int i = 0; i < fake.program_count; i++) {
        fake_register_variables(fake.programs[i].code);
    }
}

void ptxsim_fault(const char *name, int code, int after, int times) {
    LOCKED
    int i = function_index(name);
    if (i >= 0) {
        functions[i].fault = code;
        functions[i].after = after;
        functions[i].times = times;
    }
}

void ptxsim_null_stream(void *stream) {
    LOCKED
    fake.null_stream = stream;
}

uint64_t ptxsim_calls(const char *name) {
    LOCKED
    int i = function_index(name);
    return i >= 0 ? functions[i].calls : 0;
}

uint64_t ptxsim_launch_count(void) {
    LOCKED
    return fake.launch_count;
}

const char *ptxsim_last_error(void) {
    LOCKED
    return fake.last_error;
}

// Programs

int ptxsim_program_count(void) {
    LOCKED
    return fake.program_count;
}

const char *ptxsim_program_text(int index) {
    LOCKED
    return index >= 0 && index < fake.program_count ? fake.programs[index].text : NULL;
}

const char *ptxsim_program_replace(int index, const char *text) {
    LOCKED
    if (index < 0 || index >= fake.program_count) {
        return "no such program";
    }
    ptx_program *code = ptx_parse(text, fake.last_error, sizeof fake.last_error);
    if (!code) {
        return fake.last_error;
    }
    fake_program *program = &fake.programs[index];
    if (fake.last.program == program->code) {
        memset(&fake.last, 0, sizeof fake.last);
    }
    ptx_program_free(program->code);
    free(program->text);
    *program = (fake_program){code, strdup(text)};
    fake_register_variables(code);
    return NULL;
}

// The report

typedef struct text {
    char *out;
    size_t size, used;
} text;

static void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text *t, const char *format, ...) {
    va_list list;
    va_start(list, format);
    size_t room = t->used < t->size ? t->size - t->used : 0;
    int length = vsnprintf(room ? t->out + t->used : NULL, room, format, list);
    va_end(list);
    t->used += length > 0 ? (size_t)length : 0;
}

static void put_string(text *t, const char *string) {
    put(t, "\"");
    for (; *string; string++) {
        if (*string == '"' || *string == '\\') {
            put(t, "\\%c", *string);
        } else {
            put(t, (unsigned char)*string < ' ' ? "\\u%04x" : "%c", *string);
        }
    }
    put(t, "\"");
}

static void put_findings(text *t, const ptx_launch *l) {
    put(t, "\"findings\": [");
    for (int32_t i = 0; i < l->finding_count; i++) {
        const ptx_finding *f = &l->findings[i];
        const ptx_insn *insn = &l->program->code[f->insn];
        put(t, "%s{\"kind\": \"%s\", \"instruction\": ", i ? ", " : "", ptx_finding_names[f->kind]);
        put_string(t, insn->text);
        put(t, ", \"line\": %d, \"count\": %llu, \"detail\": ", insn->line,
            (unsigned long long)f->count);
        put_string(t, f->detail);
        put(t, "}");
    }
    put(t, "], ");
}

// How often each opcode ran, as instructions of warps; memory ones with their space.
static void put_mix(text *t, const ptx_launch *l) {
    static const char *const spaces[] = {"", ".global", ".shared", ".local", ".param"};
    struct {
        const ptx_row *row;
        int space;
        uint64_t executed;
    } sums[256];
    int count = 0;
    for (int32_t i = 0; l->program && i < l->program->count; i++) {
        const ptx_insn *insn = &l->program->code[i];
        int at = 0;
        while (at < count && (sums[at].row != insn->row || sums[at].space != insn->space)) {
            at++;
        }
        if (!insn->executed || at == sizeof sums / sizeof *sums) {
            continue;
        }
        if (at == count) {
            sums[count].row = insn->row;
            sums[count].space = insn->space;
            sums[count++].executed = 0;
        }
        sums[at].executed += insn->executed;
    }
    put(t, "\"instructions\": {");
    for (int i = 0; i < count; i++) {
        put(t, "%s\"%s%s\": %llu", i ? ", " : "", sums[i].row->name, spaces[sums[i].space],
            (unsigned long long)sums[i].executed);
    }
    put(t, "}");
}

static void put_counters(text *t, const ptx_launch *l) {
    const ptx_counters *c = &l->counters;
    put(t, "\"counters\": {");
#define C(name) put(t, "\"" #name "\": %llu, ", (unsigned long long)c->name);
    C(requested_read_bytes)
    C(requested_write_bytes)
    C(unique_read_bytes)
    C(unique_write_bytes)
    C(sectors)
    C(read_sectors)
    C(write_sectors)
    C(sector_bytes_used)
    C(requests)
    C(requests_128)
    C(shared_requests)
    C(bank_conflicts)
    C(lane_instructions)
#undef C
    put(t, "\"warp_instructions\": %llu, ", (unsigned long long)c->instructions);
    put_mix(t, l);
    put(t, "}");
}

size_t ptxsim_report(char *out, size_t size) {
    LOCKED
    const ptx_launch *l = &fake.last;
    text t = {out, size, 0};
    put(&t, "{\"kernel\": ");
    put_string(&t, fake.last_kernel);
    put(&t, ", \"program\": %d, \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], ",
        fake.last_program, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
        l->block[2]);
    put(&t, "\"shared\": %u, \"fault\": %d, ", l->shared_bytes, l->fault);
    put_findings(&t, l);
    put_counters(&t, l);
    put(&t, "}");
    return t.used + 1;
}

size_t ptxsim_executed_lines(int32_t *lines, size_t room) {
    LOCKED
    const ptx_program *program = fake.last.program;
    size_t count = 0;
    for (int32_t i = 0; program && i < program->count; i++) {
        if (program->code[i].executed && count++ < room) {
            lines[count - 1] = program->code[i].line;
        }
    }
    return count;
}
