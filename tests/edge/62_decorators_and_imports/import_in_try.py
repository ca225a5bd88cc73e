"""A module docstring, a future import, imports in try, under conditions, in parentheses, with a backslash, after code."""
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
# expect: text "^from __future__ import annotations$" "^try:$" "^except ImportError:$"
from __future__ import annotations

import math; import os
from typing import (
    TYPE_CHECKING,
    Optional,
)
from functools import partial, \
    reduce

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import torch.nn.functional as F
except ImportError:
    F = None

try:
    from no_such_package import silu
except ImportError:
    from torch.nn.functional import silu
else:
    raise RuntimeError

__all__ = ["Mlp"]


class Mlp(nn.Module):
    def __init__(self, hook: Optional[Callable] = None):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.act_fn = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


def cases(dtype):
    yield Mlp().to(dtype)(torch.randn(3, 8, dtype=dtype))
    yield F.relu(torch.ones(1)), [math.pi, os.sep, partial.__name__, reduce.__name__, silu.__name__]
    yield Mlp.forward.__annotations__["x"], __doc__.split(",")[0], __all__
