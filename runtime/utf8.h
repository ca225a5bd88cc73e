// What text is made of that comes from outside: paths, names, the messages of compilers and
// drivers.
#ifndef TFR_UTF8_H
#define TFR_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// How many bytes the character at `text` takes, of the `left` (>= 1) that there are; 0: no UTF-8.
size_t tfr_utf8_length(const char *text, size_t left);

// Whether a terminal shows the character of `len` bytes as one within its line: no control
// character (C0, DEL, C1), line separator, or mark that is unseen or turns the writing direction.
bool tfr_utf8_shown(const char *text, size_t len);

// Makes one line of a string, in place: what is not shown becomes spaces, what is no UTF-8 becomes
// question marks.
void tfr_one_line(char *text);

#endif
