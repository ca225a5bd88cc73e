# The function that is put in the helper's place has a default of its own, which the call leaves
# to it.
# expect: fused rope Attn.forward
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


class Attn(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


def patched(q, k, cos, sin, position_ids=None, unsqueeze_dim=2):
    return q + unsqueeze_dim, k - unsqueeze_dim


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    module, given = sys.modules[__name__], inputs(dtype)
    yield Attn()(*given)
    module.apply_rotary_pos_emb = patched
    yield Attn()(*given)
    torch.compiler.reset()
    yield torch.compile(Attn(), backend="eager", fullgraph=True)(*given)
