# The activation comes from the library's table, or is one of two: what it is, the instance says.
# expect: fused act_mul Table.forward
# expect: fused linears Table.forward
# expect: fused act_mul TwoKinds.forward
# expect: fused linears TwoKinds.forward
# expect: fused act_mul Branches.forward
# expect: fused linears Branches.forward
import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN


class Table(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.act_fn = ACT2FN[name]

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


class TwoKinds(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.act_fn = nn.SiLU() if name == "silu" else nn.GELU()

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


class Branches(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        if name == "silu":
            self.act_fn = nn.SiLU()
        elif name == "table":
            self.act_fn = ACT2FN["gelu_new"]
        else:
            self.act_fn = nn.ReLU()

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    for name in "silu gelu gelu_new gelu_pytorch_tanh relu relu2 sigmoid tanh quick_gelu laplace".split():
        yield Table(name).to(dtype)(x)
    for name in ("silu", "table", "other"):
        yield TwoKinds(name).to(dtype)(x), Branches(name).to(dtype)(x)
