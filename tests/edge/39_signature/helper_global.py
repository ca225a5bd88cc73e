# A function of the file itself replaces the helper by a global statement.
# expect: either rope apply_rotary_pos_emb
# expect: either rope Attn.forward
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


class Attn(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    global apply_rotary_pos_emb
    given, attn, kept = inputs(dtype), Attn(), apply_rotary_pos_emb
    yield attn(*given)
    apply_rotary_pos_emb = lambda q, k, cos, sin: (q - 1, k + 1)
    yield attn(*given)
    apply_rotary_pos_emb = kept
    yield attn(*given)
