"""CUDA without a GPU: the ops' kernels, compiled to PTX, run on CPU tensors by tests/ptxsim.

Importing this loads the test-only libcuda.so.1 and sets what the runtime reads when it first looks
for a device, so it comes before tfrewrite. The ops are reached under torch's dispatch key CUDA.
Everything on the way is the real thing but the driver: dispatch, planning, NVRTC, cache, loading,
launching.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_BUILD = Path(os.environ.get("TFR_BIN") or shutil.which("tfrewrite") or "").resolve().parent
LIBRARY = Path(os.environ.get("TFR_PTXSIM", _BUILD / "tests/ptxsim/lib/libcuda.so.1"))
os.environ.setdefault("TFR_JIT", "sync")
os.environ.setdefault("TFR_CACHE_DIR", str(_BUILD / "test-cache"))
os.environ.setdefault("TFR_CUDA_TARGET", "compute_90")  # PTX, which is all that the simulator runs

READABLE, WRITABLE, INITIALISED = 1, 2, 4

_sim = ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)  # dlopen("libcuda.so.1") finds it by name
driver = _sim  # its functions as the real one has them
_sim.ptxsim_configure.argtypes = (ctypes.c_char_p,)
_sim.ptxsim_memory.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_sim.ptxsim_fault.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int)
_sim.ptxsim_calls.argtypes = (ctypes.c_char_p,)
_sim.ptxsim_null_stream.argtypes = (ctypes.c_void_p,)
_sim.ptxsim_report.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
_sim.ptxsim_executed_lines.argtypes = (ctypes.POINTER(ctypes.c_int32), ctypes.c_size_t)
_sim.ptxsim_executed_lines.restype = ctypes.c_size_t
_sim.ptxsim_program_text.restype = ctypes.c_char_p
_sim.ptxsim_program_replace.argtypes = (ctypes.c_int, ctypes.c_char_p)
_sim.ptxsim_program_replace.restype = ctypes.c_char_p

import torch  # noqa: E402  (the driver must be there first)
from tfrewrite import guards, kernels, ops, rules  # noqa: E402

OBSERVER = ctypes.CFUNCTYPE(
    None,
    ctypes.c_char_p,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.POINTER(ctypes.c_int32),
)


def configure(**settings: object) -> None:
    """As `configure(warp_order=3, strict=1)`: see tests/ptxsim/README.md."""
    _sim.ptxsim_configure(" ".join(f"{k}={v}" for k, v in settings.items()).encode())


def fault(function: str, code: int, after: int = 0, times: int = 1) -> None:
    """Lets a driver function fail with this CUresult, after so many calls, so often."""
    _sim.ptxsim_fault(function.encode(), code, after, times)


def null_stream(stream: ctypes.c_void_p | None) -> None:
    """What the default stream, which CPU tensors have, stands for; None: for itself."""
    _sim.ptxsim_null_stream(stream)


def calls(function: str) -> int:
    return _sim.ptxsim_calls(function.encode())


def launches() -> int:
    return _sim.ptxsim_launch_count()


def report() -> dict[str, Any]:
    """Of the last launch: kernel, grid, block, findings, counters."""
    size = 1 << 20
    text = ctypes.create_string_buffer(size)
    _sim.ptxsim_report(text, size)
    return json.loads(text.value)


def executed_lines() -> set[int]:
    """The lines of its PTX, from 0, whose instructions the last launch ran."""
    lines = (ctypes.c_int32 * 20000)()
    count = _sim.ptxsim_executed_lines(lines, len(lines))
    return {line - 1 for line in lines[:count]}


def programs() -> list[str]:
    """The PTX texts that were loaded."""
    return [_sim.ptxsim_program_text(i).decode() for i in range(_sim.ptxsim_program_count())]


def replace_program(number: int, text: str) -> str | None:
    """Swaps the PTX behind a loaded kernel; gives why it is no valid program."""
    why = _sim.ptxsim_program_replace(number, text.encode())
    return None if why is None else why.decode()


def kernel(op: str, variant: str) -> Callable[..., Any]:
    """The torch op of a reference, under the dispatch key CUDA."""
    return _on_device(kernels.get(op, variant))


def _on_device(overload: Any) -> Callable[..., Any]:
    return lambda *arguments: overload._op_dk(torch._C.DispatchKey.CUDA, *arguments)


@contextmanager
def strict() -> Iterator[None]:
    """Kernels may read their inputs and write their outputs, and touch nothing else."""

    def register(_op, count, data, size, written):
        _sim.ptxsim_memory_clear()
        for i in range(count):
            flags = WRITABLE | READABLE if written[i] else READABLE | INITIALISED
            _sim.ptxsim_memory(data[i], size[i], flags)

    observer = OBSERVER(register)
    library = kernels.library()
    configure(strict=1)
    library.tfr_torch_observe_launches(observer)
    try:
        yield
    finally:
        library.tfr_torch_observe_launches(OBSERVER())
        configure(strict=0)
        _sim.ptxsim_memory_clear()


@contextmanager
def everywhere() -> Iterator[None]:
    """Rewritten code calls the kernels of the simulated device, although its tensors are on the CPU,
    and float16 counts there as it does on a GPU.
    """
    get, floats = kernels.get, guards._FLOATS

    def on_device(op: str, variant: str) -> Callable[..., Any] | None:
        overload = get(op, variant)
        return overload and _on_device(overload)

    kernels.get, guards._FLOATS = on_device, (*floats, torch.float16)
    try:
        ops.install(rules.load())
        yield
    finally:
        kernels.get, guards._FLOATS = get, floats
        ops.install(rules.load())
