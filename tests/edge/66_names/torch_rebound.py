# The module rebinds torch's function names after the import: what runs is what the names hold
# at run time.
# expect: either act_mul
# expect: either rms_norm
import torch
import torch.nn.functional as F
from torch import nn
import types

silu = F.silu
F = types.SimpleNamespace(silu=lambda x: x * 5, gelu=F.gelu)


class Mlp(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up, silu(gate) * up, F.gelu(gate) * up


def cases(dtype):
    global silu
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield Mlp()(gate, up)
    silu = torch.tanh
    yield Mlp()(gate, up)
    F.gelu = lambda x: x - 1
    yield Mlp()(gate, up)
