"""Paths, offline mode, and the fixtures of the package's tests."""

import importlib
import os
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in (str(ROOT / "python"), str(HERE)):
    if folder not in sys.path:
        sys.path.insert(0, folder)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")])
)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.pop("TFR_DISABLE", None)
os.environ.pop("TFR_OPS", None)


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory):
    """No test reads or writes the user's cache."""
    os.environ["TFR_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def binary():
    """The program under test: $TFR_BIN, a build of this checkout, or the one on PATH."""
    built = sorted(ROOT.glob("build/*/tfrewrite"), key=lambda p: p.stat().st_mtime)
    path = os.environ.get("TFR_BIN") or (str(built[-1]) if built else shutil.which("tfrewrite"))
    assert path, "no tfrewrite program: build it, or set TFR_BIN"
    os.environ["TFR_BIN"] = path
    return path


@pytest.fixture(scope="session")
def tfr():
    """The ops module, with the ops of demo_rules."""
    from tfrewrite import ops, rules

    rules.add(HERE / "demo_rules")
    return ops


@pytest.fixture
def standin(monkeypatch, tmp_path):
    """A small program in place of the real one, for faults that the real one does not have."""
    monkeypatch.setenv("TFR_BIN", str(HERE / "standin.py"))
    monkeypatch.setenv("TFR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TFR_RULES", str(HERE / "demo_rules"))
    monkeypatch.delenv("STANDIN", raising=False)
    return HERE / "standin.py"


class Child:
    """`text` run as __main__ in a forked process, which has torch, but none of the modules of `without`.

    As a new interpreter would run it, at a tenth of the time. After wait(): returncode, stdout, stderr.
    """

    def __init__(self, text, folder, path=(), without=("tfrewrite", "transformers"), **environment):
        import torch  # noqa: F401

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
