# Many matches in one file and in one function, nested ones, on one line, with one inside a
# string that is none.
# expect: fused linears A.forward x3
# expect: fused act_mul A.forward x2
# expect: fused linears B.forward
# expect: fused act_mul B.forward x2
# expect: fused rms_norm C.forward
# expect: fused linears D.forward
import torch
import torch.nn.functional as F
from torch import nn

class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.c = nn.Linear(8, 8)
        self.d = nn.Linear(8, 8)
        self.e = nn.Linear(8, 8)
        self.f = nn.Linear(8, 8)

    def forward(self, x):
        """F.silu(self.a(x)) * self.b(x)"""
        x = F.silu(self.a(x)) * self.b(x)
        x = F.gelu(self.c(x)) * self.d(x)
        return self.e(x), self.f(x), "F.silu(self.a(x)) * self.b(x)"


class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        return F.silu(F.silu(self.a(x)) * self.b(x)) * x


class C(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.c = nn.Linear(8, 8)
        self.d = nn.Linear(8, 8)

    def forward(self, x):
        return self.a(self.c(x) + self.d(x)), self.b(x), self.a(x)


def cases(dtype):
    for kind in (A, B, C, D):
        yield kind().to(dtype)(torch.randn(3, 8, dtype=dtype))
