"""Model repositories as Hub code has them: report, bytes, a second run, and both side by side.

Each file or folder of code/ is a repository of our own in a well-known style. A folder's model is
its modeling_edge.py; every file of it is rewritten, as the import hook does, and each says in its
own comments what is expected of it (tests/edge/README.md).
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "edge")]

import edge_driver as driver  # noqa: E402
import modes  # noqa: E402

CODE = sorted(p for p in (HERE / "code").iterdir() if not p.name.startswith("__"))
DTYPES = ("float32", "bfloat16")
RUNS = [pytest.param(p, d, id=f"{p.stem}-{d}") for p in CODE for d in DTYPES]


def name_of(path: Path) -> str:
    return path.stem


def files_of(path: Path) -> driver.Files:
    if path.is_dir():
        return {p.stem: p.read_bytes() for p in sorted(path.glob("*.py"))}
    return {driver.MODULE: path.read_bytes()}


def rewrite(files: driver.Files) -> dict[str, driver.Outcome]:
    return {
        name: driver.rewrite_with_binary(
            data, name=name, beside={n: d for n, d in files.items() if n != name}
        )
        for name, data in files.items()
    }


@functools.cache
def rewritten(path: Path) -> dict[str, driver.Outcome]:
    return rewrite(files_of(path))


def texts(path: Path) -> driver.Files:
    return {name: out.text for name, out in rewritten(path).items()}


def split(files: driver.Files) -> tuple[bytes, driver.Files]:
    """The model's file and those beside it."""
    return files[driver.MODULE], {n: d for n, d in files.items() if n != driver.MODULE}


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_report(path):
    files = files_of(path)
    said = 0
    for name, data in files.items():
        wanted = driver.read_expectations(data.decode())
        driver.check_report(wanted.items, data, rewritten(path)[name])
        loose = [item.line for item in wanted.items if item.kind in ("told", "either")]
        assert not loose, f"{name}: lines {loose} leave the outcome open"
        said += len(wanted.items)
    assert said, "a repository without an expectation tests nothing"


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_text(path):
    files, again = files_of(path), rewrite(texts(path))
    for name, out in rewritten(path).items():
        driver.check_bytes(files[name], out)
        driver.check_second_run(out, again[name])


def check_runs(path: Path, dtype: str, bits: bool = True) -> None:
    (old, old_beside), (new, new_beside) = split(files_of(path)), split(texts(path))
    driver.check_runs(old, new, getattr(torch, dtype), bits, (old_beside, new_beside))


@pytest.mark.parametrize("path, dtype", RUNS)
def test_equal(path, dtype):
    check_runs(path, dtype)


@pytest.mark.parametrize("path, dtype", RUNS)
def test_equal_with_ops_off(path, dtype):
    with modes.running(modes.OFF):
        check_runs(path, dtype)


@pytest.mark.kernels
@pytest.mark.parametrize("path, dtype", RUNS)
def test_equal_with_kernels(path, dtype):
    """Within the driver's tolerance, and without gradients, which no kernel takes."""
    from tfrewrite import ops

    with modes.running(modes.KERNELS), ops.record() as counts, torch.no_grad():
        check_runs(path, dtype, bits=False)
    kernels = sum(n for (_, _, taken), n in counts.items() if taken == modes.kernel_path())
    fused = any(out.report["fused"] for out in rewritten(path).values())
    assert bool(kernels) == fused, dict(counts)


def test_there_are_enough():
    """Thirty repositories, some of several files."""
    assert len(CODE) >= 30 and sum(p.is_dir() for p in CODE) >= 5


@pytest.mark.parametrize("folder", [p for p in CODE if p.is_dir()], ids=name_of)
def test_a_folder_is_rewritten_in_place(folder, tmp_path):
    """`tfrewrite -w DIR` takes modeling_*.py alone, with what it knows of the others."""
    for name, data in files_of(folder).items():
        (tmp_path / f"{name}.py").write_bytes(data)
    done = driver.subprocess.run([driver.find_binary(), "-q", "-w", str(tmp_path)], check=False)
    assert done.returncode == 0
    for name, data in files_of(folder).items():
        want = texts(folder)[name] if name.startswith("modeling_") else data
        assert (tmp_path / f"{name}.py").read_bytes() == want
