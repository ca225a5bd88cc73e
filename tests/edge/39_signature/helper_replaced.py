# Somebody puts another function in the helper's place, or in the place of what the helper
# calls. That one must run.
# expect: fused rope Attn.forward "via=apply_rotary_pos_emb"
import torch
import torch.nn.functional as F
from torch import nn
import sys

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


def doubled(q, k, cos, sin, unsqueeze_dim=1):
    return q * 2, k * 2


class Attn(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    module, given, attn, kept = sys.modules[__name__], inputs(dtype), Attn(), apply_rotary_pos_emb
    yield attn(*given)

    module.apply_rotary_pos_emb = lambda q, k, cos, sin: (q + 1, k - 1)
    yield attn(*given)

    module.apply_rotary_pos_emb = doubled  # of this very file
    yield attn(*given)

    module.apply_rotary_pos_emb = len
    yield lambda: attn(*given)

    module.apply_rotary_pos_emb = kept
    yield attn(*given)

    apply_rotary_pos_emb.__defaults__ = (2,)
    q, k, cos, sin = given
    yield attn(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
    apply_rotary_pos_emb.__defaults__ = (1,)

    code = apply_rotary_pos_emb.__code__
    apply_rotary_pos_emb.__code__ = doubled.__code__
    yield attn(*given)
    apply_rotary_pos_emb.__code__ = code
    yield attn(*given)
