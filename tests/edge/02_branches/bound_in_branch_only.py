# The whole group stands inside a branch, whose result has no value on the other path, as in
# many models.
# expect: fused linears OneName.forward
# expect: fused linears Nested.forward
# expect: fused act_mul Nested.forward
import torch
import torch.nn.functional as F
from torch import nn

class OneName(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x, flag=True):
        if flag:
            y = self.a(x) + self.b(x)
        return y


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x, flag=True):
        if x is not None:
            if flag:
                y = F.silu(self.gate(x)) * self.up(x)
        return y


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for kind in (OneName, Nested):
        block = kind().to(dtype)
        yield block(x)
        yield lambda: block(x, False)
