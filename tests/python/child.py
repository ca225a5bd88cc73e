"""Scripts in forked processes, for what cannot be undone in this one: imports, environment."""

import importlib
import os
import signal
import sys
import traceback
import warnings
from types import ModuleType

import torch

TIME_LIMIT = 120  # seconds
torch.set_num_threads(1)  # a pool of threads does not survive a fork


class Child:
    """`text` run as __main__ in a forked process that has torch, but no module of `without`.

    As a new interpreter would, at a tenth of the time. After wait(): returncode, stdout, stderr.
    """

    def __init__(self, text, folder, path=(), without=("tfrewrite", "transformers"), **environment):
        self._names = [folder / f"{k}-{len(list(folder.iterdir()))}" for k in ("stdout", "stderr")]
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                self._prepare(folder, path, without, environment)
                exec(compile(text, "<script>", "exec"), sys.modules["__main__"].__dict__)
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(bool(end.code))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)

    def _prepare(self, folder, path, without, environment):
        for number, name in enumerate(self._names, 1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        signal.alarm(TIME_LIMIT)
        importlib.reload(warnings)  # pytest collects them
        sys.dont_write_bytecode = False
        os.environ.update(environment)
        os.chdir(folder)
        for name in [n for n in sys.modules if n.split(".")[0] in without]:
            del sys.modules[name]
        sys.path[:0] = map(str, path)
        sys.modules["__main__"] = ModuleType("__main__")

    def wait(self):
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self.stdout, self.stderr = (name.read_text() for name in self._names)
        return self
