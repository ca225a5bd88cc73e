// Bytes of global memory by page: registered, holding a value, touched in this launch.
#include "ptx_memory.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_of(const ptx_memory *memory, uint64_t number) {
    return (size_t)(number * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (memory->capacity - 1);
}

static void insert(ptx_memory *memory, ptx_page *page) {
    size_t at = slot_of(memory, page->number);
    while (memory->table[at]) {
        at = (at + 1) & (memory->capacity - 1);
    }
    memory->table[at] = page;
}

static void make_room(ptx_memory *memory) {
    if (memory->count * 2 < memory->capacity) {
        return;
    }
    ptx_page **old = memory->table;
    size_t old_capacity = memory->capacity;
    memory->capacity = old_capacity ? old_capacity * 2 : 1024;
    memory->table = calloc(memory->capacity, sizeof *memory->table);
    if (!memory->table) {
        abort();
    }
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i]) {
            insert(memory, old[i]);
        }
    }
    free(old);
}

ptx_page *ptx_memory_page(ptx_memory *memory, uint64_t address, bool make) {
    uint64_t number = address / PTX_PAGE;
    if (memory->last && memory->last->number == number) {
        return memory->last;
    }
    if (memory->capacity) {
        for (size_t at = slot_of(memory, number); memory->table[at];
             at = (at + 1) & (memory->capacity - 1)) {
            if (memory->table[at]->number == number) {
                return memory->last = memory->table[at];
            }
        }
    }
    if (!make) {
        return NULL;
    }
    make_room(memory);
    ptx_page *page = calloc(1, sizeof *page);
    if (!page) {
        abort();
    }
    page->number = number;
    insert(memory, page);
    memory->count++;
    return memory->last = page;
}

// The bits of the bytes from address to end that lie in address's sector.
static uint32_t sector_bits(uint64_t address, uint64_t end) {
    uint64_t start = address % PTX_SECTOR, stop = end - (address - start);
    uint32_t upto = stop >= PTX_SECTOR ? UINT32_MAX : (UINT32_C(1) << stop) - 1;
    return upto & ~((UINT32_C(1) << start) - 1);
}

static void set(uint32_t *word, uint32_t bits, bool on) {
    *word = on ? *word | bits : *word & ~bits;
}

void ptx_memory_register(ptx_memory *memory, uint64_t address, uint64_t bytes, int flags) {
    uint64_t end = address + bytes;
    for (uint64_t at = address; at < end; at = (at / PTX_SECTOR + 1) * PTX_SECTOR) {
        uint32_t bits = sector_bits(at, end);
        ptx_page *page = ptx_memory_page(memory, at, true);
        size_t sector = at % PTX_PAGE / PTX_SECTOR;
        set(&page->readable[sector], bits, flags & PTX_READABLE);
        set(&page->writable[sector], bits, flags & PTX_WRITABLE);
        set(&page->written[sector], bits, flags & PTX_WRITTEN);
    }
}

void ptx_memory_fill(ptx_memory *memory, uint64_t address, uint64_t bytes) {
    uint64_t end = address + bytes;
    for (uint64_t at = address; at < end; at = (at / PTX_SECTOR + 1) * PTX_SECTOR) {
        ptx_page *page = ptx_memory_page(memory, at, true);
        page->written[at % PTX_PAGE / PTX_SECTOR] |= sector_bits(at, end);
    }
}

bool ptx_memory_registered(ptx_memory *memory, uint64_t address, uint64_t bytes) {
    uint64_t end = address + bytes;
    for (uint64_t at = address; at < end; at = (at / PTX_SECTOR + 1) * PTX_SECTOR) {
        ptx_page *page = ptx_memory_page(memory, at, false);
        size_t sector = at % PTX_PAGE / PTX_SECTOR;
        if (!page || sector_bits(at, end) & ~(page->readable[sector] | page->writable[sector])) {
            return false;
        }
    }
    return true;
}

void ptx_memory_untouch(ptx_memory *memory) {
    for (size_t i = 0; i < memory->capacity; i++) {
        ptx_page *page = memory->table[i];
        if (page && page->touched) {
            memset(page->was_read, 0, sizeof page->was_read);
            memset(page->was_written, 0, sizeof page->was_written);
            page->touched = false;
        }
    }
}

void ptx_memory_clear(ptx_memory *memory) {
    for (size_t i = 0; i < memory->capacity; i++) {
        free(memory->table[i]);
    }
    free(memory->table);
    memory->table = NULL;
    memory->capacity = memory->count = 0;
    memory->last = NULL;
}

uint32_t ptx_bank_conflicts(uint32_t mask, const uint64_t *address, uint32_t bytes) {
    uint32_t conflicts = 0, group = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
    for (uint32_t first = 0; first < 32; first += group) {
        uint64_t words[32][32]; // the different words asked of each bank
        uint32_t used[32] = {0}, most = 1;
        for (uint32_t lane = first; lane < first + group; lane++) {
            if (!(mask >> lane & 1)) {
                continue;
            }
            uint64_t last = (address[lane] + bytes - 1) / 4;
            for (uint64_t word = address[lane] / 4; word <= last; word++) {
                uint32_t bank = (uint32_t)(word % 32), i = 0;
                while (i < used[bank] && words[bank][i] != word) {
                    i++;
                }
                if (i == used[bank] && used[bank] < 32) {
                    words[bank][used[bank]++] = word;
                    most = used[bank] > most ? used[bank] : most;
                }
            }
        }
        conflicts += most - 1;
    }
    return conflicts;
}
