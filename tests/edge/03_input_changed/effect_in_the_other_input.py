# up may change what gate gave: the activation of gate stays before it. What made the layers may be anything.
# expect: refused act_mul Made.forward "runs between its parts"
# expect: refused act_mul Functional.forward "runs between its parts"
# expect: fused act_mul Before.forward "tfr.act_mul\(self.act_fn, gate, up\)"
# expect: fused act_mul Plain.forward
# expect: fused linears Plain.forward
import functools

import torch
import torch.nn.functional as F
from torch import nn


class Doubles(nn.Module):
    """Writes to what the other layer gave."""

    def __init__(self, inner, outer, other=None):
        super().__init__()
        self.linear, self.other = nn.Linear(inner, outer), other

    def forward(self, x):
        y = self.linear(x)
        if self.other is None:
            self.last = y
        elif not torch.is_grad_enabled():
            self.other.last.mul_(2)
        return y


def layer_class(rank):
    return nn.Linear if rank is None else functools.partial(Doubles)


class Made(nn.Module):
    def __init__(self, rank=None):
        super().__init__()
        made = layer_class(rank)
        self.gate_proj = made(8, 12)
        self.up_proj = made(8, 12) if rank is None else made(8, 12, self.gate_proj)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


class Functional(Made):
    def forward(self, x):
        return F.silu(self.gate_proj(x)) * self.up_proj(x)


class Before(Made):
    def forward(self, x):
        gate = self.gate_proj(x)
        up = self.up_proj(x)
        return self.act_fn(gate) * up


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(8, 12), nn.Linear(8, 12)

    def forward(self, x):
        return F.silu(self.gate_proj(x)) * self.up_proj(x)


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    for cls in (Made, Functional, Before):
        for rank in (None, 2):
            model = cls(rank).to(dtype)
            yield model(x)
            with torch.no_grad():
                yield model(x)
    yield Plain().to(dtype)(x)
