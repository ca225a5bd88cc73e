"""Every kernel for every target and dtype as real machine code: it compiles, spills nothing, is for the
target that was asked for, and keeps within its budget of registers and shared memory (cubins.py).

With -s the whole matrix is printed. TFR_CUBINS=all: every reference and activation too.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import cubins
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WHICH = os.environ.get("TFR_CUBINS", "")
ROWS = re.findall(
    r'^TFR_CUDA_TARGET\((\d+), (\d+), "(\w*)", (\w+),',
    (ROOT / "jit/target.def").read_text(),
    re.MULTILINE,
)
TARGETS = {f"sm_{major}{minor}{suffix}": bf16 == "true" for major, minor, suffix, bf16 in ROWS}
KERNELS = list(cubins.every_reference()) if WHICH == "all" else cubins.KERNELS


@cache
def folder() -> Path:
    """Where compiled kernels are kept from run to run, as long as no template changes."""
    sources = sorted((ROOT / "codegen_templates").iterdir())
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in sources)).hexdigest()[:12]
    build = Path(os.environ.get("TFR_BIN") or shutil.which("tfrewrite")).resolve().parent
    for old in build.glob("test-cubins-*"):
        if digest not in old.name:
            shutil.rmtree(old)
    return build / f"test-cubins-{digest}{WHICH and '-' + WHICH}"


@cache
def compiled(target: str) -> dict:
    folder().mkdir(mode=0o700, exist_ok=True)
    environment = {**os.environ, "TFR_CACHE_DIR": str(folder())}
    done = subprocess.run(
        [sys.executable, str(HERE / "cubins.py"), target, *([WHICH] if WHICH else [])],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def supported(target: str) -> list[str]:
    return [d for d in cubins.NAMES.values() if d != "bf16" or TARGETS[target]]


@cache
def matrix(target: str) -> dict[str, cubins.Cubin]:
    """By kernel and dtype."""
    found = {}
    for name, file in compiled(target)["made"].items():
        label, noted, binary = cubins.entry(folder() / "kernels" / file)
        assert noted == target and label.endswith(target), (label, noted)
        found[name] = cubins.read_cubin(binary)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_everything_compiles(target):
    names = {f"{k.name}, {d}" for k in KERNELS for d in supported(target)}
    if WHICH == "all":  # references of one kernel
        assert set(matrix(target)) <= names and len(matrix(target)) > 100
    else:
        assert set(matrix(target)) == names
    run = compiled(target)
    assert set(run["paths"].values()) == {"aten"}
    # Only that the simulator runs no machine code, and what the target does not have.
    for warning in run["warnings"]:
        assert "NO_BINARY_FOR_GPU" in warning or ("bf16" in warning and not TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
def test_target(target):
    assert {c.arch for c in matrix(target).values()} == {target}


@pytest.mark.parametrize("target", TARGETS)
def test_no_spills(target):
    assert not [name for name, c in matrix(target).items() if c.local]


@pytest.mark.parametrize("target", TARGETS)
def test_budgets(target):
    over = []
    for kernel in KERNELS:
        for dtype in supported(target):
            c = matrix(target).get(f"{kernel.name}, {dtype}")
            if c and (c.registers > kernel.registers or c.shared > kernel.shared):
                over.append((kernel.name, dtype, c.registers, c.shared))
    assert not over


def test_print_matrix():
    """Registers, and shared bytes where there are any, by kernel and dtype and by target."""
    print()
    print(" " * 34 + "".join(f"{t:>9}" for t in TARGETS))
    for kernel in KERNELS:
        for dtype in cubins.NAMES.values():
            name, row = f"{kernel.name}, {dtype}", ""
            for target in TARGETS:
                c = matrix(target).get(name)
                cell = f"{c.registers}{f'+{c.shared}' if c.shared else ''}" if c else "-"
                row += f"{cell:>9}"
            print(f"{name:<34}{row}")
    count = sum(len(matrix(t)) for t in TARGETS)
    local = sum(c.local for t in TARGETS for c in matrix(t).values())
    print(f"{count} kernels of machine code, {local} bytes of local memory")
    assert count
