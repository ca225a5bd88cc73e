# Projections with a helper of another file between them: one that has no effect, one that counts,
# one that changes the input.
# expect: fused linears Plain.forward
# expect: refused linears Counting.forward "not known to have no effects"
# expect: refused linears Shifting.forward "writes between"
import torch
from torch import nn

from . import ops
from .ops import counting, plain, shifting


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)


class Plain(Base):
    def forward(self, x):
        q = plain(self.q_proj(x))
        return q, self.k_proj(x)


class Counting(Base):
    def forward(self, x):
        q = counting(self.q_proj(x))
        return q, self.k_proj(x)


class Shifting(Base):
    def forward(self, x):
        q = self.q_proj(x)
        shifting(x)
        return q, self.k_proj(x)


@torch.no_grad()
def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for cls in (Plain, Counting, Shifting):
        yield cls().to(dtype)(x), x
    yield list(ops.calls)
