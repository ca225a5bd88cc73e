"""Imports modules one after another in this process.

    python import_all.py [--hook] MODULE...

Prints one JSON line for each: {"module", "error", "rewritten"}. With --hook, tfrewrite's import
hook is on, and "rewritten" says whether the module that came out uses the ops.
"""

import importlib
import json
import os
import sys
import warnings


def uses_ops(module) -> bool:
    ops = sys.modules.get("tfrewrite.ops")
    return ops is not None and any(value is ops for value in vars(module).values())


def main() -> None:
    names = sys.argv[1:]
    hook = "--hook" in names
    names = [n for n in names if n != "--hook"]
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    if hook:
        import tfrewrite

        tfrewrite.enable(target="auto")
    out = os.fdopen(os.dup(1), "w")  # what the modules print goes elsewhere
    os.dup2(2, 1)
    for name in names:
        error = None
        try:
            module = importlib.import_module(name)
        except BaseException as e:  # a module may raise anything, SystemExit included
            error, module = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}", None
        line = {
            "module": name,
            "error": error,
            "rewritten": module is not None and uses_ops(module),
        }
        print(json.dumps(line), file=out, flush=True)


if __name__ == "__main__":
    main()
