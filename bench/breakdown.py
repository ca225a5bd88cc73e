"""Where the CPU time of one model goes: by kind of operation, and what is left for Python.

aten operations are timed by a dispatch mode and put under the innermost function of the modeling
file that called them. Under such a mode the ops of tfrewrite run their references, so these are left
out there, and their kernels are timed in another run. What is in neither (Python, calls of modules
and ops, references that ran) is the remainder of the time measured without either.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import timing
import torch
from tfrewrite import kernels, ops, rules
from timing import Candidate, Times
from torch.utils._python_dispatch import TorchDispatchMode

# Function of the modeling file, or a part of a file name -> the kind its operations count as.
FUNCTIONS = {
    "RMSNorm.forward": "norms",
    "apply_rotary_pos_emb": "rope",
    "rotate_half": "rope",
    "RotaryEmbedding.forward": "rope tables",
    "MLP.forward": "act_mul",
    "DecoderLayer.forward": "residual sums",
    "Attention.forward": "views and copies",
}
FILES = {"cache_utils": "cache", "masking_utils": "mask", "sdpa_attention": "views and copies"}
OPERATIONS = {
    "scaled_dot_product_attention": "sdpa",
    "_scaled_dot_product_flash_attention_for_cpu": "sdpa",
    "embedding": "embedding",
}
MATMULS = {"linear", "mm", "addmm", "matmul", "bmm"}
OPS_FILE = "<tfrewrite.ops."  # the functions that tfrewrite.ops writes


class Watch:
    """Seconds and calls by kind."""

    def __init__(self, lm_head: torch.Tensor) -> None:
        self.lm_head = lm_head
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def run(self, kind: str, call: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        start = time.thread_time_ns()
        result = call(*args, **(kwargs or {}))
        self.seconds[kind] += (time.thread_time_ns() - start) / 1e9
        self.calls[kind] += 1
        return result

    def with_head(self, kind: str, args: Any) -> str:
        head = any(a is self.lm_head or _same_memory(a, self.lm_head) for a in args[1:2])
        return "lm_head" if head else kind


def _same_memory(a: Any, b: torch.Tensor) -> bool:
    return isinstance(a, torch.Tensor) and a.data_ptr() == b.data_ptr()


class _Mode(TorchDispatchMode):
    def __init__(self, watch: Watch, modeling: str) -> None:
        super().__init__()
        self.watch, self.modeling = watch, modeling

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = self._kind(func._schema.name.partition("::")[2], args, sys._getframe(1))
        if kind is None:
            return func(*args, **(kwargs or {}))
        return self.watch.run(kind, func, args, kwargs)

    def _kind(self, name: str, args: Any, frame: FrameType | None) -> str | None:
        """None: the operation is part of an op of tfrewrite."""
        kind = self.watch.with_head("linears", args) if name in MATMULS else OPERATIONS.get(name)
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(OPS_FILE):
                return None
            if code.co_filename == self.modeling:
                owner = type(frame.f_locals.get("self")).__name__
                called = f"{owner}.{code.co_name}", code.co_name
                own = (k for f, k in FUNCTIONS.items() if called[0].endswith(f) or called[1] == f)
                return kind or next(own, "other")
            kind = kind or next((k for f, k in FILES.items() if f in code.co_filename), None)
            frame = frame.f_back
        return kind or "other"


@contextmanager
def _timed_kernels(watch: Watch) -> Iterator[None]:
    get = kernels.get

    def timed(op: str, variant: str) -> Callable[..., Any] | None:
        kernel = get(op, variant)
        if kernel is None:
            return None
        kind = f"tfr.{op}"
        return lambda *args: watch.run(watch.with_head(kind, args), kernel, args)

    kernels.get = timed
    ops.install(rules.load())
    try:
        yield
    finally:
        kernels.get = get
        ops.install(rules.load())


def measure(
    candidate: Candidate, modeling: str, lm_head: torch.Tensor, calls: int, rounds: int
) -> dict[str, Any]:
    """Milliseconds and number of operations of each kind, per call of the model."""
    watches: dict[str, list[Watch]] = {"aten": [], "kernels": []}

    def watched(what: str) -> Candidate:
        def call() -> None:
            watch = Watch(lm_head)
            context: AbstractContextManager[Any] = (
                _Mode(watch, modeling) if what == "aten" else _timed_kernels(watch)
            )
            with context:
                candidate.call()
            watches[what].append(watch)

        return Candidate(call, candidate.reset)

    candidates = {"plain": candidate} | {what: watched(what) for what in watches}
    total = timing.in_turn(candidates, rounds)["plain"].median * 1e3 / calls
    ms, count = {}, {}
    for found in watches.values():
        for kind in found[-1].seconds:  # the first one warmed up
            ms[kind] = Times([w.seconds[kind] for w in found[1:]]).median * 1e3 / calls
            count[kind] = found[-1].calls[kind] / calls
    ms["python and dispatch"] = total - sum(ms.values())
    return {"total_ms": total, "ms": ms, "operations": count}


def show(title: str, found: dict[str, Any]) -> None:
    rows = [
        [
            kind,
            f"{ms:.2f}",
            f"{ms / found['total_ms']:.1%}",
            f"{found['operations'].get(kind, 0):g}",
        ]
        for kind, ms in sorted(found["ms"].items(), key=lambda item: -item[1])
    ]
    rows.append(["total", f"{found['total_ms']:.2f}", "", ""])
    timing.table(title, ["kind", "ms of CPU", "share", "operations"], rows)
