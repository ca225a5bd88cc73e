# Operands are evaluated from left to right: with dropout or a log in them, an op that takes
# them in another order shows.
# expect: either act_mul
# expect: either linears
# expect: either add_rms_norm
# expect: either rope
# expect: fused rms_norm Norm.forward
import torch
import torch.nn.functional as F
from torch import nn

LOG = []


class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


def noted(name, t):
    LOG.append(name)
    return t


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)
        self.act = nn.SiLU()


class SumOfDropouts(Base):
    def forward(self, x, r):
        s = F.dropout(r, 0.5) + F.dropout(x, 0.5)
        return self.norm(s), s


class SumOfModules(Base):
    def forward(self, x, r):
        s = self.drop(r) + self.drop(x)
        return self.norm(s), s


class SumOfNoted(Base):
    def forward(self, x, r):
        s = noted("left", r) + noted("right", x)
        return self.norm(s), s


class SumInCall(Base):
    def forward(self, x, r):
        return self.norm(self.drop(r) + self.drop(x)), torch.rand(2)


class UpFirst(Base):
    def forward(self, x, r):
        return self.drop(self.up(x)) * self.act(self.drop(self.gate(x)))


class NotedFactors(Base):
    def forward(self, x, r):
        return noted("up", x) * F.silu(noted("gate", r)), F.silu(noted("gate", r)) * noted("up", x)


class ActChosen(Base):
    def forward(self, x, r):
        return noted("gate", x) * noted("act", self.act)(noted("inner", r))


class Rope(Base):
    def forward(self, x, r):
        q, k = x.view(1, 1, -1, 8), r.view(1, 1, -1, 8)
        cos, sin = x[None], r[None]
        q, k = apply_rotary_pos_emb(k=self.drop(k), sin=noted("sin", sin), q=self.drop(q), cos=noted("cos", cos))
        return q, k


class Mixed(Base):
    def forward(self, x, r):
        a = self.gate(x)
        noise = torch.rand_like(a)
        b = self.up(x)
        return a + noise, self.act(b) * torch.rand_like(b)


class Subscripts(Base):
    def forward(self, x, r):
        values = [r, x]
        s = values.pop() + values.pop()
        return self.norm(s), s


class Walrus(Base):
    def forward(self, x, r):
        s = (x := x * 2) + x
        y = F.silu(r := r + x) * r
        return self.norm(s), s, y


KINDS = [
    SumOfDropouts, SumOfModules, SumOfNoted, SumInCall, UpFirst, NotedFactors, ActChosen, Rope, Mixed,
    Subscripts, Walrus,
]


def cases(dtype):
    for kind in KINDS:
        yield kind().to(dtype)(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
        yield LOG
