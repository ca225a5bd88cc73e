# A class that calls F.linear itself, in one case of two: its projections stay apart. A method of a
# module that does, and projections of two inputs, are no such projections.
# expect: refused linears Attn.forward "calls F\.linear: they would have to be exactly nn\.Linear"
# expect: not-fused linears Apart.forward
import torch
import torch.nn.functional as F
from torch import nn


class Quantized(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size))
        self.exact = True

    def forward(self, x, scale=None):
        if self.exact:
            return F.linear(x, self.weight), None
        self.last = scale
        return F.linear(x, self.weight.round()) * scale, scale

    def rounded(self, x):
        return x.round()


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = Quantized(8), Quantized(8)

    def forward(self, x, scale):
        q, q_scale = self.q_proj(x, scale)
        k, k_scale = self.k_proj(x, scale)
        return q, k, q_scale, k_scale


class Apart(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Quantized(8), Quantized(8)

    def forward(self, x):
        return self.a.rounded(x), self.b.rounded(x), self.a(x)[0], self.b(x + 1)[0]


def cases(dtype):
    x, attn = torch.randn(2, 3, 8, dtype=dtype), Attn().to(dtype)
    yield attn(x, 2.0)
    attn.q_proj.exact = False
    yield attn(x, 2.0)
    yield Apart().to(dtype)(x)
