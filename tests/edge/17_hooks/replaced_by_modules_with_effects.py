# In place of the projections stand modules that write to their input, draw random numbers, or log. Order and effects stay.
# Order and effects stay.
# expect: either linears
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn

LOG = []


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 8)
        self.up_proj = nn.Linear(8, 8)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


class Noted(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        LOG.append(self.name)
        return x * len(LOG)


def cases(dtype):
    # Not here: effects of what replaces act_fn, which may run after up_proj instead of before it (docs/NUMERICS.md).
    with torch.no_grad():
        mlp, x = Mlp().to(dtype), torch.randn(3, 8, dtype=dtype)
        mlp.gate_proj = nn.Dropout(0.5)
        mlp.up_proj = nn.ReLU(inplace=True)
        yield mlp(x), x
        mlp.up_proj = nn.Dropout(0.5)
        yield mlp(x), x
        mlp.gate_proj, mlp.up_proj = Noted("gate"), Noted("up")
        yield mlp(x), LOG
