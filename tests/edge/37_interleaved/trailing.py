# The last part of the head is rotated, the first one passes.
# expect: told rope Attn.forward
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
    def __init__(self):
        super().__init__()
        self.nope = 4

    def forward(self, q, k, cos, sin):
        q_pass, q_rot = q.split([self.nope, q.shape[-1] - self.nope], dim=-1)
        k_pass, k_rot = k.split([self.nope, k.shape[-1] - self.nope], dim=-1)
        q_rot, k_rot = apply_rotary_pos_emb(q_rot, k_rot, cos, sin)
        return torch.cat((q_pass, q_rot), dim=-1), torch.cat((k_pass, k_rot), dim=-1)


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    yield Attn()(*inputs(dtype, 12, 8))
    yield Attn()(*inputs(dtype, 8, 4))
