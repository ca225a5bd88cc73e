# StableLM and Phi: the attention cuts q and k at an attribute, rotates the first part and joins
# both again.
# expect: fused rope Attn.forward
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
    def __init__(self, rotary):
        super().__init__()
        self.rotary_ndims = rotary

    def forward(self, query_states, key_states, cos, sin):
        query_rot, query_pass = (
            query_states[..., : self.rotary_ndims],
            query_states[..., self.rotary_ndims :],
        )
        key_rot, key_pass = (
            key_states[..., : self.rotary_ndims],
            key_states[..., self.rotary_ndims :],
        )
        query_rot, key_rot = apply_rotary_pos_emb(query_rot, key_rot, cos, sin)
        query_states = torch.cat((query_rot, query_pass), dim=-1)
        key_states = torch.cat((key_rot, key_pass), dim=-1)
        return query_states, key_states


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    for rotary in (2, 4, 8):
        yield Attn(rotary)(*inputs(dtype, 8, rotary))
    q, k, cos, sin = inputs(dtype, 8, 4)
    attn = Attn(4)
    attn.rotary_ndims = 2  # cos is wider than what the attention cuts off: an error stays an error
    yield lambda: attn(q, k, cos, sin)
    yield lambda: Attn(1)(*inputs(dtype, 8, 1))
    yield lambda: Attn(16)(*inputs(dtype, 8, 8))
    yield lambda: Attn(0)(*inputs(dtype, 8, 0))
