// The files of codegen_templates/ as they were when the program was built; the definitions are
// written by cmake/embed_templates.c.
#ifndef TFR_TEMPLATES_H
#define TFR_TEMPLATES_H

#include <stddef.h>

typedef struct tfr_template_file {
    const char *name; // "rms_norm.c"; NULL ends the list
    const char *text;
    size_t length;
} tfr_template_file;

extern const tfr_template_file tfr_template_files[];

#endif
