// The files that a file imports from, read when a name of theirs is looked up and never changed.
// Knows where Python would find them and what is bound there; knows nothing of what it is for.
#ifndef TFR_IMPORTS_H
#define TFR_IMPORTS_H

#include "rewriter/flow.h"
#include "rewriter/report.h"

#define TFR_MAX_IMPORTED_FILES 32          // for one rewritten file
#define TFR_MAX_IMPORTED_BYTES (16u << 20) // of them together
#define TFR_MAX_REEXPORTS 8                // `from .a import x` where .a imports it itself
#define TFR_MAX_PROJECT_BYTES (256u << 20) // kept parsed, of all rewritten files together

// Files parsed so far, so that one that many import from is parsed once.
typedef struct tfr_project tfr_project;

// `transformers`: the folder of that package, for `from transformers.models...`, or NULL. A file
// that lies in that package finds it without.
tfr_project *tfr_project_new(const char *transformers);
void tfr_project_free(tfr_project *project);

// What one rewritten file imports from. `project` NULL, or a path that is no file: from nothing.
typedef struct tfr_imports tfr_imports;
tfr_imports *tfr_imports_new(tfr_project *project, const char *path, tfr_report *report,
                             tfr_arena *arena);
// Makes `module`, the file itself, one that sees other files. For its edited text once more.
void tfr_imports_attach(tfr_imports *imports, tfr_module *module);

#endif
