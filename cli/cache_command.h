// `tfrewrite cache`: the kernel cache as text. Gives text and statuses; main.c prints and exits.
#ifndef TFR_CACHE_COMMAND_H
#define TFR_CACHE_COMMAND_H

#include "cli/args.h"

// Does what `args->operands` says, which tfr_args_parse has checked, and writes what is to be
// printed. `damaged`: `verify` found an entry that is not sound.
tfr_status tfr_cache_command(tfr_buf *out, bool *damaged, const tfr_args *args, tfr_arena *arena,
                             tfr_error *err);

#endif
