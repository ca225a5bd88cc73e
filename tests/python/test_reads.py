"""What a rewritten source owes to other files is part of its name in the cache."""

import os
import time
from pathlib import Path

import pytest
from tfrewrite import hook, program

LAYERS = """import torch


def double(x):
    return x * 2
"""
MODEL = """import torch
from torch import nn
from .layers import double


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q_proj = nn.Linear(size, size)
        self.k_proj = nn.Linear(size, size)

    def forward(self, x):
        q = double(self.q_proj(x))
        return q, self.k_proj(x)
"""
OPTIONS = program.Options.make(only="linears")


def write(path, text, age=60.0):
    """A file that has been there for a while."""
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.setenv("TFR_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "code"
    folder.mkdir()
    write(folder / "layers.py", LAYERS)
    write(folder / "modeling_x.py", MODEL)
    return folder


@pytest.fixture
def runs(monkeypatch):
    """How often the program has run."""
    real, seen = program.run, []

    def run(source, path, options):
        seen.append(path)
        return real(source, path, options)

    monkeypatch.setattr(program, "run", run)
    return seen


def obtain(folder):
    path = folder / "modeling_x.py"
    return hook.obtain(path.read_bytes(), str(path), "pack/modeling_x.py", OPTIONS)


def fused(folder):
    return [e["op"] for e in obtain(folder)[0].fused]


def test_a_sibling_that_changes(code, runs):
    first = obtain(code)
    assert [e["op"] for e in first[0].fused] == ["linears"]
    assert Path(first[1]).read_bytes() == first[0].data
    assert obtain(code) == (
        first[0].__class__(first[0].data, True, first[0].fused, first[0].refused, ["layers.py"]),
        first[1],
    )
    assert len(runs) == 1
    write(code / "layers.py", LAYERS.replace("return", "print(x)\n    return"))
    assert fused(code) == [] and len(runs) == 2
    assert fused(code) == [] and len(runs) == 2
    write(code / "layers.py", LAYERS)  # as it was: that result is still there
    assert fused(code) == ["linears"] and len(runs) == 2


def test_a_sibling_that_comes_and_goes(code, runs):
    (code / "layers.py").unlink()
    assert fused(code) == [] and fused(code) == [] and len(runs) == 1
    write(code / "layers.py", LAYERS)
    assert fused(code) == ["linears"] and len(runs) == 2
    (code / "layers.py").unlink()
    assert fused(code) == []


def test_a_sibling_of_a_sibling(code, runs):
    write(code / "layers.py", "from .more import double\n")
    write(code / "more.py", LAYERS)
    assert fused(code) == ["linears"] and fused(code) == ["linears"] and len(runs) == 1
    write(code / "more.py", LAYERS.replace("return", "print(x)\n    return"))
    assert fused(code) == [] and len(runs) == 2


def test_the_same_code_in_two_places(code, runs, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write(other / "modeling_x.py", MODEL)
    write(other / "layers.py", LAYERS.replace("return", "print(x)\n    return"))
    for _ in range(2):
        assert fused(code) == ["linears"] and fused(other) == []
    assert len(runs) == 2


def test_a_file_that_has_just_been_written_is_not_trusted(code, runs):
    """It may have changed between being read and being hashed."""
    write(code / "layers.py", LAYERS, age=-5.0)
    result, kept = obtain(code)
    assert result.changed and kept is None
    assert fused(code) == ["linears"] and len(runs) == 2


def test_a_damaged_list_of_files(code, runs):
    obtain(code)
    (entry,) = [p for p in (code.parent / "cache" / "src").iterdir() if not any(p.glob("pack"))]
    (entry / "entry.json").write_text("{")
    with pytest.warns(hook.TfrewriteWarning, match="damaged"):
        assert fused(code) == ["linears"]
    assert len(runs) == 2
    assert fused(code) == ["linears"] and len(runs) == 2
