# Statements with an effect, bare strings, logging, assignments of no use: none may be lost.
# expect: fused linears Inert.forward
# expect: fused act_mul Inert.forward
# expect: either linears Mlp.forward
# expect: either act_mul Mlp.forward
# expect: text "not_used = 5" "a bare string" "pass" "global COUNT" "unused: int" "x.shape" "'text'"
import torch
import torch.nn.functional as F
from torch import nn

COUNT = 0


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.log = []

    def forward(self, x):
        """doc"""
        global COUNT
        COUNT += 1
        not_used = 5
        "a bare string"
        self.log.append("start")
        gate = self.gate_proj(x)
        pass
        self.log.append("middle") if COUNT else None
        up = self.up_proj(x)
        self.log += ["end"]
        x.shape
        y = F.silu(gate) * up
        self.seen = y.shape
        return y


class Inert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.log = []

    def forward(self, x):
        self.log.append("start")
        gate = self.gate_proj(x)
        unused: int
        pass
        x.shape
        'text'
        unused = 3
        up = self.up_proj(x)
        y = F.silu(gate) * up
        self.log.append("end")
        return y


def cases(dtype):
    mlp = Mlp().to(dtype)
    yield mlp(torch.randn(3, 8, dtype=dtype)), mlp.log, COUNT, mlp.seen
    inert = Inert().to(dtype)
    yield inert(torch.randn(3, 8, dtype=dtype)), inert.log
