# gpt-oss: cos and sin have half the width, and the halves are written out.
# expect: fused rope Attn.forward "via=apply_rotary_pos_emb"
# expect: fused rope _apply_rotary_emb "half_width"
import torch
import torch.nn.functional as F
from torch import nn

def _apply_rotary_emb(x, cos, sin):
    first_half, second_half = torch.chunk(x, 2, dim=-1)
    first_ = first_half * cos - second_half * sin
    second_ = second_half * cos + first_half * sin
    return torch.cat((first_, second_), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = _apply_rotary_emb(q, cos, sin)
    k_embed = _apply_rotary_emb(k, cos, sin)
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
    yield Attn()(*inputs(dtype, 8, 4))
    yield lambda: Attn()(*inputs(dtype, 7, 4))
    yield lambda: Attn()(*inputs(dtype, 8, 8))
    yield lambda: Attn()(*inputs(dtype, 8, 1))
