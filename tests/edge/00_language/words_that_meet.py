# Words that a parenthesis kept apart, results that would be called like a keyword, a suite that becomes empty.
# expect: fused linears Apart.forward
# expect: fused linears Keyword.forward
# expect: fused act_mul Paren.forward x2
# expect: fused rms_norm Emptied.forward
# expect: text "in_out, k = tfr.linears"
# expect: text "return tfr.act_mul"
import torch
import torch.nn.functional as F
from torch import nn


class Apart(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.in_proj = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return[self.q(x)is None,1if self.in_proj(x)is None else 2]  # fmt: skip


class Keyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.in_proj(x).sin() * self.k(x).cos()


class Paren(nn.Module):
    def forward(self, x, y):
        if y.ndim == 3:
            return(F.silu(x))*y  # fmt: skip
        return(F.silu(x))*(y)if x is y else(1)  # fmt: skip


class Emptied(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.eps = 1e-6

    def forward(self, x):
        v = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(v + self.eps)
        n = 0
        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            x = x.to(self.weight.dtype)
        else:
            n = 1
        return self.weight * x, n


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for cls in (Apart, Keyword, Emptied):
        yield cls().to(dtype)(x)
    yield Paren()(x, x), Paren()(x, x + 1), Paren()(x[None], x[None])
