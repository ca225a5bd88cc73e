# DeepSeek: interleaved in, halves out.
# expect: fused rope Attn.forward "via=apply_rotary_pos_emb_interleave"
import torch
import torch.nn.functional as F
from torch import nn

def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb_interleave(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)

    b, h, s, d = q.shape
    q = q.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)

    b, h, s, d = k.shape
    k = k.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)

    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class Attn(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb_interleave(q, k, cos, sin)
        return q, k


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    yield Attn()(*inputs(dtype))
    q, k, cos, sin = inputs(dtype)
    # view needs memory that fits: with heads and positions exchanged it still does, with the last axis strided not
    yield Attn()(q.transpose(1, 2).contiguous().transpose(1, 2), k, cos, sin)
    yield lambda: Attn()(torch.randn(2, 4, 5, 16, dtype=dtype)[..., ::2], k, cos, sin)
    yield lambda: Attn()(torch.randn(2, 4, 8, 5, dtype=dtype).transpose(2, 3), k, cos, sin)
