"""Which is faster on this machine for the linears of a model: the kernel or torch's matmul?

Measured once per dtype, shape and class of row counts, when `prepare` is called, and stored in the
kernel cache, where `tfrewrite cache ls` shows it; every later process and every other rank takes
the stored answer. What runs without a measurement stays unless the other is a tenth faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from tfrewrite import kernels

_ROWS = (1, 4, 64)  # stand for one row, two to eight, more: the classes of runtime/linear_choice.h
_MARGIN = 1.1
_ROUNDS = 9
_CLEAR = 3.0  # so much slower in the first round: no more rounds are needed
_DTYPES = {torch.float32: 0, torch.bfloat16: 1}
_KERNEL, _TORCH, _STORED = 0, 1, -1


def linears(groups: Iterable[Sequence[nn.Linear]]) -> None:
    """Measures the modules of each group as one `linears` call where no answer is stored yet."""
    library = kernels.library()
    if library is None:
        return
    seen = set()
    for group in groups:
        weights = [m.weight for m in group]
        first = weights[0]
        columns, width = sum(w.shape[0] for w in weights), first.shape[1]
        key = (first.dtype, columns, width)
        op = _op(len(group))
        fit = all(w.is_cpu and w.dtype == first.dtype and w.shape[1] == width for w in weights)
        if op is None or key in seen or first.dtype not in _DTYPES or not fit:
            continue
        seen.add(key)
        for rows, count in enumerate(_ROWS):
            shape = (_DTYPES[first.dtype], rows, columns, width)
            if not library.tfr_torch_linear_known(*shape):
                torch_wins = _torch_wins(op, group, count, library.tfr_torch_linear_default(*shape))
                library.tfr_torch_linear_remember(*shape, torch_wins)


def _op(modules: int) -> Callable[..., object] | None:
    return kernels.get("linear", "m1") if modules == 1 else kernels.get("linears", f"m{modules}")


@torch.no_grad()
def _torch_wins(
    op: Callable[..., object], group: Sequence[nn.Linear], rows: int, default: bool
) -> bool:
    library = kernels.library()
    weight = group[0].weight
    x = torch.randn(rows, weight.shape[1]).to(weight.dtype)
    arguments = [x, *(t for m in group for t in (m.weight.detach(), m.bias))]
    best = {_KERNEL: float("inf"), _TORCH: float("inf")}
    try:
        for path in best:
            library.tfr_torch_force_linear(path)
            op(*arguments)  # compiles, and reads the weights once
        kernels.wait()
        for _ in range(_ROUNDS):
            for path in best:
                library.tfr_torch_force_linear(path)
                start = time.perf_counter()
                op(*arguments)
                best[path] = min(best[path], time.perf_counter() - start)
            if max(best.values()) > _CLEAR * min(best.values()):
                break
    finally:
        library.tfr_torch_force_linear(_STORED)
    if default:
        return best[_KERNEL] * _MARGIN > best[_TORCH]
    return best[_TORCH] * _MARGIN < best[_KERNEL]
