"""Paths, the environment of a process that has loaded kernels' code but no kernel yet, and the
fixtures: a model, a compiler that remembers, a cache that is warm.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

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
for name in ("TFR_CACHE_RO", "TFR_CC", "TFR_CC_TIMEOUT", "TFR_HOST_ISA", "TFR_OPS", "TFR_DISABLE"):
    os.environ.pop(name, None)
os.environ["TFR_JIT"] = "sync"
# Linears are a matter of test_threads.py: here they would only take time.
os.environ["TFR_FORCE"] = "linear:torch,linears:torch"
if not os.environ.get("TFR_BIN"):
    built = sorted(ROOT.glob("build/*/tfrewrite"), key=lambda p: p.stat().st_mtime)
    os.environ["TFR_BIN"] = str(built[-1]) if built else shutil.which("tfrewrite") or ""

from forked import run  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory):
    """No test reads or writes the user's cache."""
    os.environ["TFR_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def place():
    """An empty folder that every user can enter, unlike tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="tfrewrite-jit-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Compiler:
    """cc behind a script that notes its runs, and compiles one text once: its time is not what is
    tested here. `run` and what it is given are those of the real one.
    """

    def __init__(self, folder: Path):
        self._runs, store = folder / "runs", folder / "store"
        store.mkdir()
        self._runs.touch()
        for path in (store, self._runs):
            path.chmod(0o777)  # for another user
        self.path = folder / "cc"
        self.path.write_text(f"""#!/bin/sh
case "$1" in -std=*) ;; *) exec cc "$@" ;; esac
echo >> {self._runs}
for input; do :; done
sum=$(cat "$input" | cat - "$0" | sha256sum)
kept={store}/${{sum%% *}}
if [ ! -e "$kept" ]; then
    cc "$@" || exit
    cp "${{input%.c}}.so" "$kept.$$" && mv "$kept.$$" "$kept"
fi
exec cp "$kept" "${{input%.c}}.so"
""")
        self.path.chmod(0o755)

    def runs(self) -> int:
        return self._runs.stat().st_size


@pytest.fixture(scope="session")
def compiler():
    folder = Path(tempfile.mkdtemp(prefix="tfrewrite-jit-cc-"))
    folder.chmod(0o755)
    made = Compiler(folder)
    os.environ["TFR_CC"] = str(made.path)
    yield made
    del os.environ["TFR_CC"]
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def subject(compiler):
    """The model under test, with the library loaded and no kernel used yet."""
    from subject import Subject

    return Subject()


@pytest.fixture(scope="session")
def model(subject, compiler):
    from subject import Model

    return Model(subject, compiler)


@pytest.fixture(scope="session")
def warm(subject, compiler, tmp_path_factory):
    """A cache with every kernel of the subject. Not to be written to: take copies."""
    base = tmp_path_factory.mktemp("warm")
    base.chmod(0o755)
    outcome, warnings = run(subject.run, TFR_CACHE_DIR=base)
    assert outcome.right and outcome.paths == {"jit"} and warnings == [], (outcome, warnings)
    return base


@pytest.fixture
def cache(warm, place):
    """A copy of the warm cache."""
    shutil.copytree(warm, place / "cache")
    return place / "cache"
