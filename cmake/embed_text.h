// For the programs that write files into C source while the program is built.
#ifndef TFR_EMBED_TEXT_H
#define TFR_EMBED_TEXT_H

#include <stdio.h>

#include "runtime/arena.h"

// `static const char text_<index>[] = "...";`
static inline void write_text(FILE *out, int index, tfr_str text) {
    fprintf(out, "static const char text_%d[] =\n    \"", index);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '\n')
            fprintf(out, "\\n\"\n    \"");
        else if (c == '"' || c == '\\' || c == '?') // '?': C has trigraphs
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c > '~')
            fprintf(out, "\\%03o", c);
        else
            fputc(c, out);
    }
    fprintf(out, "\";\n");
}

#endif
