"""The ways in which the ops of rewritten code run, for tests that hold equality in each of them.

`references`: no kernels. `kernels`: kernels wherever guards.py lets one run: compiled ones where
TFR_JIT is sync, as it is unless set, and those of the generic build where it is off, which only
another process can change. `torch`: the same, but matrix products are torch's, as on a machine
where that is faster. `off`: the file's own helpers, and references. Importing this sets what the
ops read when they are installed, so it comes before `tfrewrite.ops`. Knows no op.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REFERENCES, KERNELS, TORCH, OFF = "references", "kernels", "torch", "off"
_TFR_OPS = {REFERENCES: "ref", KERNELS: "auto", TORCH: "auto", OFF: "off"}
_PRODUCTS = {KERNELS: 0, TORCH: 1}  # for tfr_torch_force_linear; -1: what the machine chooses
os.environ.setdefault("TFR_JIT", "sync")  # async would make the path a matter of time
if _program := os.environ.get("TFR_BIN") or shutil.which("tfrewrite"):
    # Kernels are compiled once per build, and no test reads or writes the user's cache.
    os.environ.setdefault("TFR_CACHE_DIR", str(Path(_program).resolve().parent / "test-cache"))


def parameter(mode: str, *values, id: str = ""):
    """A pytest parameter (mode, *values). Those of kernels carry the mark `kernels`: the run with
    the generic build takes only them, a sanitised build none.
    """
    marks = [pytest.mark.kernels] if mode in _PRODUCTS else []
    name = f"{mode}-{id}" if id else mode
    return pytest.param((mode, *values) if values else mode, marks=marks, id=name)


def kernel_path() -> str:
    """What `ops.record()` calls the path of a kernel in this process."""
    return {"sync": "jit", "off": "generic"}[os.environ["TFR_JIT"]]


_functions: dict[
    tuple, dict
] = {}  # (TFR_OPS, ops) -> their functions, since writing them takes 30 ms


_modes = [OFF]  # innermost last


@contextmanager
def running(mode: str) -> Iterator[None]:
    """`ops.record()` and the like go inside."""
    from tfrewrite import ops, rules

    before = os.environ.get("TFR_OPS")
    written = {name: getattr(ops, name) for name in ops.names()}
    os.environ["TFR_OPS"] = _TFR_OPS[mode]
    _modes.append(mode)
    try:
        key = _TFR_OPS[mode], frozenset(ops.names())
        if key not in _functions:
            ops.install(rules.load())
            _functions[key] = {name: getattr(ops, name) for name in ops.names()}
        vars(ops).update(_functions[key])
        _choose_products()
        yield
    finally:
        _modes.pop()
        _choose_products()
        os.environ.pop("TFR_OPS")
        if before is not None:
            os.environ["TFR_OPS"] = before
        vars(ops).update(written)


def _choose_products() -> None:
    from tfrewrite import kernels

    if kernels.library() is not None:
        kernels.library().tfr_torch_force_linear(_PRODUCTS.get(_modes[-1], -1))
