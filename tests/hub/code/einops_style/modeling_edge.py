# Layouts by rearrange, which is unknown code to us: what lies around it is fused where no effect
# can come between.
# expect: fused act_mul EMLP.forward
# expect: refused linears ECross.forward "not known to have no effects"
# expect: not-fused linears EAttention.forward
import torch
from torch import nn

from .einops_stand_in import rearrange


class EAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.Wqkv = nn.Linear(size, 3 * size, bias=False)
        self.out_proj = nn.Linear(size, size, bias=False)

    def forward(self, x):
        qkv = rearrange(self.Wqkv(x), "b s (three h d) -> three b h s d", three=3, h=self.heads)
        q, k, v = qkv.unbind(0)
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(rearrange(out, "b h s d -> b s (h d)"))


class ECross(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.Wq = nn.Linear(size, size, bias=False)
        self.Wkv = nn.Linear(size, 2 * size, bias=False)

    def forward(self, x):
        q = rearrange(self.Wq(x), "b s (h d) -> b h s d", h=self.heads)
        kv = rearrange(self.Wkv(x), "b s (two h d) -> two b h s d", two=2, h=self.heads)
        return nn.functional.scaled_dot_product_attention(q, kv[0], kv[1])


class EMLP(nn.Module):
    def __init__(self, size, inner):
        super().__init__()
        self.fc1 = nn.Linear(size, 2 * inner, bias=False)
        self.fc2 = nn.Linear(inner, size, bias=False)

    def forward(self, x):
        y = self.fc1(x)
        y, gate = y.chunk(2, dim=-1)
        y = y * nn.functional.silu(gate)
        return self.fc2(y)


def cases(dtype):
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield EAttention(16, 2).to(dtype)(x)
    yield ECross(16, 2).to(dtype)(x)
    yield EMLP(16, 24).to(dtype)(x)
