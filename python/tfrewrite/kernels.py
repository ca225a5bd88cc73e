"""The library of kernels in this process: torch.ops.tfr.<op>.<variant> for every reference that has
one, with the reference as its fake implementation.

Loading never raises: without the library the references run, and one warning says why. Knows no
single op.

Environment: TFR_JIT=async (default), sync or off; TFR_FORCE=op:path; docs/CACHE.md.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from tfrewrite import activations, program
from tfrewrite import rules as _rules

_lock = threading.RLock()
_library: ctypes.CDLL | None = None
_failed = False
_ops: dict[tuple[str, str], Any] = {}  # (op, variant) -> the torch op
_said: set[str] = set()


class KernelWarning(RuntimeWarning):
    """Kernels, or one of them, cannot be used; what they stand for runs without them."""


def _warn(message: str) -> None:
    """Once; never an exception, whatever filters are set."""
    if message in _said:
        return
    _said.add(message)
    try:
        warnings.warn(message, KernelWarning, stacklevel=3)
    except KernelWarning:
        print(message, file=sys.stderr)


def find() -> str:
    """The path of libtfrewrite.so: $TFR_LIB, else beside the program. Raises RewriteError."""
    named = os.environ.get("TFR_LIB")
    path = Path(named) if named else Path(program.find()).resolve().parent / "libtfrewrite.so"
    if not path.is_file():
        raise program.RewriteError(f"{path}: no such library")
    return str(path)


def _load() -> ctypes.CDLL | None:
    global _library, _failed
    if _library is None and not _failed:
        try:
            library = ctypes.CDLL(find())
            library.tfr_torch_register.restype = ctypes.c_char_p
            library.tfr_torch_registered.restype = ctypes.c_char_p
            library.tfr_torch_last_path.restype = ctypes.c_char_p
            library.tfr_torch_device_fault.argtypes = (ctypes.c_int32, ctypes.c_char_p)
            library.tfr_torch_device_fault.restype = ctypes.c_char_p
            shape = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
            library.tfr_torch_linear_known.argtypes = shape
            library.tfr_torch_linear_known.restype = ctypes.c_bool
            library.tfr_torch_linear_default.argtypes = shape
            library.tfr_torch_linear_default.restype = ctypes.c_bool
            library.tfr_torch_linear_remember.argtypes = (*shape, ctypes.c_bool)
            library.tfr_torch_take_warning.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
            library.tfr_torch_take_warning.restype = ctypes.c_bool
            _library = library
        except (program.RewriteError, OSError, AttributeError) as error:
            _failed = True
            _warn(f"tfrewrite runs without kernels: {error}")
    return _library


def install(ops: dict[str, _rules.Op]) -> None:
    """Registers the kernels of these ops that torch does not have yet."""
    with _lock:
        library = _load()
        if library is None:
            return
        for folders in (*([] if _ops else [None]), *_user_folders(ops)):  # our own: once
            why = library.tfr_torch_register(folders)
            if why is not None:
                what = "runs without kernels" if folders is None else "has no kernels of your rules"
                _warn(f"tfrewrite {what}: {why.decode()}")
        _pass_warnings_on(library)
        for line in library.tfr_torch_registered().decode().splitlines():
            op, _, variant = line.partition("\t")
            if (op, variant) not in _ops and op in ops:
                _ops[op, variant] = getattr(getattr(torch.ops.tfr, op), variant)
                torch.library.register_fake(f"tfr::{op}.{variant}", reference(ops[op], variant))


def _user_folders(ops: dict[str, _rules.Op]) -> list[bytes]:
    """The directories of rules that were added and have templates, as one argument; or none."""
    files = {sys.modules[op.module].__file__ for op in ops.values() if op.cpu}
    folders = {os.path.dirname(file) for file in files if file} - {_rules.directories()[0]}
    return [":".join(sorted(folders)).encode()] if folders else []


def _pass_warnings_on(library: ctypes.CDLL) -> None:
    text = ctypes.create_string_buffer(512)
    while library.tfr_torch_take_warning(text, len(text)):
        _warn(text.value.decode(errors="replace"))


def library() -> ctypes.CDLL | None:
    """The library, if its ops are registered."""
    return _library if _ops else None


def get(op: str, variant: str) -> Any | None:
    """The torch op of a reference; None: it has no kernel here."""
    return _ops.get((op, variant))


def last_path() -> str:
    """What served this thread's last op: "generic", "jit" or "torch", on a GPU "cuda", "aten",
    "torch" or "packed" (runtime/ops.h).
    """
    return _library.tfr_torch_last_path().decode() if _library is not None else ""


def wait() -> None:
    """Until no kernel is being compiled in the background."""
    if _library is not None:
        _library.tfr_torch_wait()


def adopt(group: Any = None) -> None:
    """Changes to the CUDA kernels that were compiled meanwhile, on all ranks at once.

    With several ranks (WORLD_SIZE > 1) and TFR_JIT=async a kernel is not used as soon as it is
    ready: one rank would compute with it what another computes without. Call this on every rank of
    `group` (default: all) at the same step, after the first one, say. It waits for this rank's
    compilers and for the other ranks. With one rank, or TFR_JIT=sync, there is nothing to do.
    """
    wait()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier(group)
    if _library is not None:
        _library.tfr_torch_adopt()


def device_fault(device: int = 0) -> str | None:
    """Why no CUDA kernel can run on this device; None: they can."""
    if _load() is None:
        return "tfrewrite's library is not loaded"
    why = _library.tfr_torch_device_fault(device, None)
    return None if why is None else why.decode(errors="replace")


# ------------------------------------------------------------------ the reference behind an op
def reference(op: _rules.Op, variant: str) -> Callable[..., Any]:
    """The op's rule on the torch op's arguments: modules are spelled out as their tensors there.

    A norm is (weight, eps, number of its reference), a layer norm (weight, bias, eps, size), an
    activation its number, a linear (weight, bias): rewriter/kernels.h.
    """
    if op.siblings is not None:
        return _siblings_reference(op.siblings.function)
    found = next(v for v in op.variants if v.name == variant)

    def run(*arguments: Any) -> Any:
        left = iter(arguments)
        given = {name: _argument(kind, left) for name, kind in found.kinds.items()}
        return found.function(**given)

    return run


def _argument(kind: type, left: Any) -> Any:
    if kind is _rules.Norm:
        return _norm(next(left), next(left), next(left))
    if kind is _rules.LayerNorm:
        return _layer_norm(next(left), next(left), next(left), next(left))
    if kind is _rules.Linear:
        return _linear(next(left), next(left))
    if kind is _rules.Act:
        return activations.function(next(left))
    return next(left)


def _norm(weight: torch.Tensor | None, eps: float, number: int) -> Callable[..., Any]:
    variant = _rules.load()["rms_norm"].variants[number]
    given = {"eps": eps} if weight is None else {"weight": weight, "eps": eps}
    return lambda x: variant.function(x, **given)


def _layer_norm(
    weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float, size: int
) -> Callable[..., Any]:
    return lambda x: F.layer_norm(x, (size,), weight, bias, eps)


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[..., Any]:
    return lambda x: F.linear(x, weight, bias)


def _siblings_reference(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: torch.Tensor, *weights: torch.Tensor | None) -> Any:
        pairs = zip(weights[::2], weights[1::2], strict=True)
        return function(x, *(_linear(weight, bias) for weight, bias in pairs))

    return run
