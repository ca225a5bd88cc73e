// In which encoding a source file is, and whether its bytes are valid in it. Knows PEP 263's rules
// and the two shapes that keep ASCII bytes in place: UTF-8 and single-byte encodings.
#ifndef TFR_ENCODING_H
#define TFR_ENCODING_H

#include "parser/source.h"

#define TFR_BOM_LEN 3u // of the UTF-8 signature
bool tfr_encoding_has_bom(tfr_str bytes);

// `src` needs its path, bytes, text and lines. `single_byte` says that bytes >= 0x80 stand for one
// character each (false: UTF-8 or ASCII). TFR_E_REFUSED: unsupported, undecodable, or the signature
// and the coding line disagree.
tfr_status tfr_encoding_check(bool *single_byte, const tfr_source *src, tfr_error *err);

#endif
