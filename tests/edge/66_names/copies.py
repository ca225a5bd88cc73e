# Values of the middle get a second name, which only the match uses: the match is the same.
# expect: fused rms_norm Norm.forward
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
# expect: fused add_rms_norm Layer.forward
# expect: fused rope Layer.rotate
import torch
import torch.nn.functional as F
from torch import nn

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


class Norm(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6

    def forward(self, x):
        dtype = x.dtype
        given = x
        h = given.to(torch.float32)
        kept = h
        v = kept.pow(2).mean(-1, keepdim=True)
        n = h * torch.rsqrt(v + self.eps)
        rounded = n.to(dtype)
        result = rounded
        return self.weight * result


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)

    def forward(self, x):
        y = x
        gate = self.gate(x)
        g = gate
        up = self.up(y)
        a = F.silu(g)
        b = a
        return b * up


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()

    def forward(self, x, residual):
        r = residual
        total = r + x
        s = total
        return self.norm(s), s

    def rotate(self, q, k, cos, sin):
        c = cos
        query = q
        query, k = apply_rotary_pos_emb(query, k, c, sin)
        return query, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    x, r = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield Norm().to(dtype)(x), Mlp().to(dtype)(x), Layer().to(dtype)(x, r)
    yield Layer().rotate(*inputs(dtype))
