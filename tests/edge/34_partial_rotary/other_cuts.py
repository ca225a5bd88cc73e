# Cuts that are not complements, joined in another order, or of another tensor: near to a
# partial rotation, but not one.
# expect: either rope
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


class Overlap(nn.Module):
    def forward(self, q, k, cos, sin):
        n = cos.shape[-1]
        a, b = apply_rotary_pos_emb(q[..., :n], k[..., :n], cos, sin)
        return torch.cat((a, q[..., n - 1 :]), dim=-1), torch.cat((b, k[..., n:]), dim=-1)


class Swapped(nn.Module):
    def forward(self, q, k, cos, sin):
        n = cos.shape[-1]
        a, b = apply_rotary_pos_emb(q[..., :n], k[..., :n], cos, sin)
        return torch.cat((q[..., n:], a), dim=-1), torch.cat((k[..., n:], b), dim=-1)


class OtherRest(nn.Module):
    def forward(self, q, k, cos, sin):
        n = cos.shape[-1]
        a, b = apply_rotary_pos_emb(q[..., :n], k[..., :n], cos, sin)
        return torch.cat((a, q[..., n:] * 2), dim=-1), torch.cat((b, k[..., n:].flip(-1)), dim=-1)


class OtherAxis(nn.Module):
    def forward(self, q, k, cos, sin):
        n = cos.shape[-1]
        a, b = apply_rotary_pos_emb(q[..., :n], k[..., :n], cos, sin)
        return torch.cat((a, q[..., n:]), dim=-2), torch.cat((b, k[..., n:]), dim=1)


class KeptParts(nn.Module):
    def forward(self, q, k, cos, sin):
        n = cos.shape[-1]
        q_rot, q_pass = q[..., :n], q[..., n:]
        k_rot, k_pass = k[..., :n], k[..., n:]
        q_rot, k_rot = apply_rotary_pos_emb(q_rot, k_rot, cos, sin)
        return torch.cat((q_rot, q_pass), dim=-1), torch.cat((k_rot, k_pass), dim=-1), q_rot, k_pass


class WrittenPart(nn.Module):
    def forward(self, q, k, cos, sin):
        n = cos.shape[-1]
        q_rot, q_pass = q[..., :n], q[..., n:]
        k_rot, k_pass = k[..., :n], k[..., n:]
        q_pass.mul_(2)
        q_rot, k_rot = apply_rotary_pos_emb(q_rot, k_rot, cos, sin)
        q_rot.add_(1)
        return torch.cat((q_rot, q_pass), dim=-1), torch.cat((k_rot, k_pass), dim=-1)


def inputs(dtype, width=8, rotary=8, heads=4, kv_heads=2):
    q = torch.randn(2, heads, 5, width, dtype=dtype)
    k = torch.randn(2, kv_heads, 5, width, dtype=dtype)
    return q, k, torch.randn(2, 5, rotary, dtype=dtype), torch.randn(2, 5, rotary, dtype=dtype)


def cases(dtype):
    for kind in (Overlap, Swapped, OtherRest, OtherAxis, KeptParts, WrittenPart):
        q, k, cos, sin = inputs(dtype, 8, 4)
        yield lambda: kind()(q, k, cos, sin)
        yield q, k
