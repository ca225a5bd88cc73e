// What a program owns, and looking things up in it.
#include "ptx_program.h"

#include <stdlib.h>
#include <string.h>

void *ptx_program_alloc(ptx_program *program, size_t bytes) {
    // Variables start at 256 bytes, as the driver's do.
    size_t total = (sizeof(struct ptx_block) + bytes + 255) / 256 * 256 + 256;
    struct ptx_block *block = bytes >= 256 ? aligned_alloc(256, total) : malloc(total);
    if (!block) {
        abort();
    }
    memset(block, 0, total);
    block->next = program->blocks;
    block->bytes = bytes;
    program->blocks = block;
    return bytes >= 256 ? (char *)block + 256 : (char *)(block + 1);
}

void ptx_program_free(ptx_program *program) {
    if (!program) {
        return;
    }
    for (struct ptx_block *block = program->blocks; block;) {
        struct ptx_block *next = block->next;
        free(block);
        block = next;
    }
    for (int32_t i = 0; i < program->count; i++) {
        free(program->code[i].found);
    }
    free(program->variables);
    free(program->code);
    free(program->functions);
    free(program->constants);
    free(program->text);
    free(program);
}

const ptx_function *ptx_program_find(const ptx_program *program, const char *name) {
    for (int32_t i = 0; i < program->function_count; i++) {
        if (program->functions[i].entry && !strcmp(program->functions[i].name, name)) {
            return &program->functions[i];
        }
    }
    return NULL;
}

int32_t ptx_program_constant(ptx_program *program, uint64_t value) {
    for (int32_t i = 0; i < program->constant_count; i++) {
        if (program->constants[(size_t)i * PTX_LANES] == value) {
            return i;
        }
    }
    if (program->constant_count == program->constant_capacity) {
        program->constant_capacity = program->constant_capacity * 2 + 64;
        program->constants =
            realloc(program->constants,
                    (size_t)program->constant_capacity * PTX_LANES * sizeof *program->constants);
        if (!program->constants) {
            abort();
        }
    }
    uint64_t *lanes = program->constants + (size_t)program->constant_count * PTX_LANES;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        lanes[lane] = value;
    }
    return program->constant_count++;
}
