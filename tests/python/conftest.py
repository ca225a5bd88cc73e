"""Paths, offline mode, and the fixtures of the package's tests."""

import os
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in (str(ROOT / "python"), str(HERE.parent), str(HERE)):
    if folder not in sys.path:
        sys.path.insert(0, folder)
import modes  # noqa: E402, F401 - sets the environment of the ops
from demo_code import CONFIGURATION, DEMO, MODELING  # noqa: E402

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
    monkeypatch.setenv("TFR_OPS", "ref")  # no library lies beside it
    monkeypatch.setenv("TFR_RULES", str(HERE / "demo_rules"))
    monkeypatch.delenv("STANDIN", raising=False)
    return HERE / "standin.py"


@pytest.fixture
def package(tmp_path):
    """A package called transformers, of one model."""
    home = tmp_path / "site" / "transformers" / "models" / "demo"
    home.mkdir(parents=True)
    for folder in (home, home.parent, home.parent.parent):
        (folder / "__init__.py").write_text("")
    (home / "configuration_demo.py").write_text("SIZE = 4\n")
    (home / "modeling_demo.py").write_text(DEMO)
    return home


@pytest.fixture
def hub_code(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "configuration_demo.py").write_text(CONFIGURATION)
    (folder / "modeling_demo.py").write_text(MODELING)
    return folder / "modeling_demo.py"
