"""Every input under NN_kind/: report, bytes, a second run, and both modules side by side."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import edge_driver  # noqa: F401 - the path of modes
import modes
import pytest
import torch
from edge_driver import (
    EDGE,
    MODULE,
    Outcome,
    Wanted,
    check_bytes,
    check_report,
    check_runs,
    check_second_run,
    read_expectations,
    rewrite_with_binary,
    run_module,
)

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning"
    ),  # torch.jit.script is one of the inputs
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),  # odd code is the point
]
INPUTS = sorted(EDGE.glob("[0-9][0-9]_*/*.py"))
# cases/README.md kinds that this folder covers; README.md here says where the others go.
KINDS = [1, 2, 3, 4, 5, *range(8, 11), *range(12, 45), *range(52, 55), *range(56, 70)]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@functools.cache
def wanted(path: Path) -> Wanted:
    return read_expectations(path.read_text(encoding="utf-8"))


@functools.cache
def rewritten(path: Path) -> Outcome:
    """The result; `text` is None only where the input allows that the file is refused."""
    out = rewrite_with_binary(path.read_bytes(), wanted(path).args)
    assert out.code in wanted(path).codes, out.stderr
    assert (out.text is None) == (out.code != 0)
    return out


def runs() -> list:
    return [
        modes.parameter(mode, path, dtype, id=f"{name_of(path)}-{dtype}")
        for mode in (modes.REFERENCES, modes.KERNELS, modes.OFF)
        for path in INPUTS
        for dtype in wanted(path).dtypes
    ]


@pytest.mark.parametrize("path", INPUTS, ids=name_of)
def test_report(path):
    out = rewritten(path)
    assert wanted(path).items, "an input without an expectation tests nothing"
    if out.text is None:
        assert re.search(rf"{MODULE}\.py:\d+:\d+: .*\w", out.stderr)
    else:
        check_report(wanted(path).items, path.read_bytes(), out)


@pytest.mark.parametrize("path", INPUTS, ids=name_of)
def test_text(path):
    out = rewritten(path)
    if out.text is not None:
        check_bytes(path.read_bytes(), out)
        check_second_run(out, rewrite_with_binary(out.text, wanted(path).args))


@pytest.mark.parametrize("run", runs())
def test_equal(run):
    mode, path, dtype = run
    data, out, dtype = path.read_bytes(), rewritten(path), getattr(torch, dtype)
    if out.text in (data, None):
        # Nothing to compare, but the input must still be a program that runs.
        assert mode != modes.REFERENCES or len(run_module(data, dtype)) > 1
    elif mode == modes.REFERENCES:
        check_runs(data, out.text, dtype)
    elif mode == modes.OFF:
        with modes.running(mode):
            check_runs(data, out.text, dtype)
    else:
        from tfrewrite import ops
        with modes.running(mode), ops.record() as paths:
          with torch.no_grad():
            try: check_runs(data, out.text, dtype, bits=False)
            finally:
                open("/tmp/mt/edge_paths.txt","a").write(f"{name_of(path)} {dtype} {dict(paths)}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_input(kind):
    """Kinds 57, 58, 63, 64 and 67 are about bytes and limits: inputs made in test_bytes.py."""
    folders = [p.parent.name for p in INPUTS if p.parent.name.startswith(f"{kind:02d}_")]
    made = f"kind_{kind:02d}" in (EDGE / "test_bytes.py").read_text()
    assert folders or made
