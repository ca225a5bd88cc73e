// What the interpreter knows about bytes of memory: whose they are, whether they hold a value, who
// touched them last.
#ifndef PTXSIM_PTX_MEMORY_H
#define PTXSIM_PTX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_SECTOR = 32, PTX_PAGE = 4096, PTX_PAGE_SECTORS = PTX_PAGE / PTX_SECTOR };
enum { PTX_READABLE = 1, PTX_WRITABLE = 2, PTX_WRITTEN = 4 };

// A bit for each byte, a word for each sector.
typedef struct ptx_page {
    uint64_t number; // address / PTX_PAGE
    uint32_t readable[PTX_PAGE_SECTORS], writable[PTX_PAGE_SECTORS], written[PTX_PAGE_SECTORS];
    uint32_t was_read[PTX_PAGE_SECTORS], was_written[PTX_PAGE_SECTORS]; // in this launch
    bool touched;
} ptx_page;

typedef struct ptx_memory {
    bool strict; // only registered bytes may be touched
    ptx_page **table;
    size_t capacity, count; // capacity: a power of two
    ptx_page *last;
} ptx_memory;

// The page of an address; NULL: none, and make is false.
ptx_page *ptx_memory_page(ptx_memory *memory, uint64_t address, bool make);
// Sets the flags of bytes; 0 forgets them.
void ptx_memory_register(ptx_memory *memory, uint64_t address, uint64_t bytes, int flags);
// The bytes hold a value now, written from outside a kernel.
void ptx_memory_fill(ptx_memory *memory, uint64_t address, uint64_t bytes);
bool ptx_memory_registered(ptx_memory *memory, uint64_t address, uint64_t bytes);
void ptx_memory_untouch(ptx_memory *memory);
void ptx_memory_clear(ptx_memory *memory);

// Shared memory of the running block. Epochs count barriers and never repeat within a launch.
typedef struct ptx_cell {
    uint32_t written_in; // block serial + 1 in which the byte got a value
    uint32_t write_epoch, read_epoch;
    uint8_t writer, reader; // warps; reader PTX_MANY: several
    bool atomic;            // the last write was
} ptx_cell;
enum { PTX_MANY = 255 };

typedef struct ptx_shared {
    uint8_t *data;
    ptx_cell *cells;
    uint32_t bytes, epoch, serial;
} ptx_shared;

// Passes over the 32 banks beyond the first of each group of lanes that the hardware serves at
// once.
uint32_t ptx_bank_conflicts(uint32_t mask, const uint64_t *address, uint32_t bytes);

#endif
