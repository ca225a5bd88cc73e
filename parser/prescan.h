// One linear pass over a file's text before it is parsed: brackets, strings, comments, line joins
// and indentation, as Python's tokenizer sees them. It refuses what the grammar would accept or
// misread without an error, and what is nested too deep to be worth parsing.
#ifndef TFR_PRESCAN_H
#define TFR_PRESCAN_H

#include "parser/source.h"

// `mask`: NULL, or the writable text of a file in a single-byte encoding (`src->text` is the same
// memory); bytes >= 0x80 in strings and comments become '?' there, others are refused.
// Inside f-strings, whose rules differ between Python versions, whatever looks wrong ends the scan
// without a verdict.
tfr_status tfr_prescan(const tfr_source *src, char *mask, tfr_error *err);

// Puts a '~' for each star in `text`, a copy of the file's text, that is a splat outside of round
// and curly brackets of what the grammar has there only inside: `return x, *[y]`. False: there is
// none.
bool tfr_prescan_splats(const tfr_source *src, char *text);

#endif
