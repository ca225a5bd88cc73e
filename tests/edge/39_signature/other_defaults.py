# The helper's own default, an unused position_ids in the middle, parameters in another order.
# expect: fused rope Two.forward "unsqueeze_dim=2"
# expect: fused rope rotary_ids "inner=rotate_half"
# expect: fused rope rotary_order "inner=rotate_half"
# expect: not-fused rope Ids.forward
# expect: not-fused rope Order.forward
import torch
import torch.nn.functional as F
from torch import nn

def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotary_two(q, k, cos, sin, unsqueeze_dim=2):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


def rotary_ids(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


def rotary_order(sin, cos, *, k, q, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return k_embed, q_embed


class Two(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = rotary_two(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        return q, k


class Ids(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = rotary_ids(q, k, cos, sin, 1)
        return q, k


class Order(nn.Module):
    def forward(self, q, k, cos, sin):
        k, q = rotary_order(sin, cos, k=k, q=q)
        return q, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    for kind in (Two, Ids, Order):
        yield kind()(*inputs(dtype))
