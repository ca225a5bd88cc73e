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
    check_result,
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
TAKES_GRADIENTS = {"17_hooks/on_projections", "53_adapters/lora_after_load", "54_state/gradients"}
NO_KERNEL = TAKES_GRADIENTS | {
    "02_branches/cached_cross_attention",  # modules that count their calls
    "17_hooks/order_of_calls",
    "17_hooks/wrapped_adapters",
    "52_mixed_precision/one_quantized",
    "54_state/function_transforms",  # vmap and the like
    "66_names/shadowed_modules",  # nn.Linear is another class there
}
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


RUNS = [
    pytest.param(path, dtype, id=f"{name_of(path)}-{dtype}")
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


@pytest.mark.parametrize("path, dtype", RUNS)
def test_equal(path, dtype):
    """With the ops as references, and off."""
    data, out, dtype = path.read_bytes(), rewritten(path), getattr(torch, dtype)
    old = run_module(data, dtype)
    assert len(old) > 1  # where nothing is rewritten the input must still be a program that runs
    if out.text not in (data, None):
        check_result(old, out.text, dtype)
        with modes.running(modes.OFF):
            check_result(old, out.text, dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_input(kind):
    """Kinds 57, 58, 63, 64 and 67 are about bytes and limits: inputs made in test_bytes.py."""
    folders = [p.parent.name for p in INPUTS if p.parent.name.startswith(f"{kind:02d}_")]
    made = f"kind_{kind:02d}" in (EDGE / "test_bytes.py").read_text()
    assert folders or made


# ---------------------------------------------------------------- kernels
@pytest.fixture(scope="module")
def paths():
    """Kernels for the rest of the module, and how often each path has been taken."""
    from tfrewrite import ops

    with modes.running(modes.KERNELS), ops.record() as counts:
        yield counts


@pytest.mark.kernels
@pytest.mark.parametrize("path, dtype", RUNS)
def test_equal_with_kernels(path, dtype, paths):
    """Within TOLERANCE, and without gradients, which no kernel takes."""
    data, out = path.read_bytes(), rewritten(path)
    if out.text in (data, None):
        return
    paths.clear()
    with torch.set_grad_enabled(name_of(path) in TAKES_GRADIENTS):
        check_runs(data, out.text, getattr(torch, dtype), bits=False)
    kernels = sum(n for (_, _, taken), n in paths.items() if taken == modes.kernel_path())
    assert bool(kernels) != (name_of(path) in NO_KERNEL), dict(paths)
