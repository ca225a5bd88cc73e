# The file was rewritten before with --only rms_norm: its calls stay, the rest follows, under
# the import that is there.
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
# expect: fused add_rms_norm Layer.forward
# expect: not-fused rms_norm
import torch
import torch.nn.functional as F
from torch import nn
from tfrewrite import ops as tfr


class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        return tfr.rms_norm(x, self.weight, self.eps, order="cast_weight")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)
        self.mlp = Mlp()

    def forward(self, x, r):
        r = r + x
        return self.mlp(self.norm(r)), r


def cases(dtype):
    yield Layer().to(dtype)(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
