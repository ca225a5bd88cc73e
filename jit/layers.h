// Which folders make up the cache, from the environment, in the order in which they are searched.
#ifndef TFR_LAYERS_H
#define TFR_LAYERS_H

#include "jit/folder.h"

typedef struct tfr_layer {
    char base[TFR_PATH_SIZE]; // the files are in its subfolder `kernels`
    bool read_only;
} tfr_layer;

// Layer number `index`; false: there are no more. The user's comes last, if there is one.
bool tfr_layer_at(size_t index, tfr_layer *out);
// The user's; false: `why` (may be NULL) says why there is none.
bool tfr_layer_user(tfr_layer *out, const char **why);

// As tfr_folder_open. A layer that is refused is warned of once; one that is missing is not.
int tfr_layer_open(const tfr_layer *layer, bool create);

#endif
