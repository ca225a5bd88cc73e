# An op's call that names a helper is not taken into a larger one: the guard would be lost, and a
# replaced helper would not be called. In the first run nothing here is larger than the rotation.
# expect: fused rope apply "inner=rotate_half"
# expect: not-fused rope again
# expect: not-fused qk_norm_rope again
# expect: fused rms_norm Norm.forward
import torch
from torch import nn

from tfrewrite import ops as tfr


class Norm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.eps)
        return self.weight * hidden_states.to(input_dtype)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply(q, k, cos, sin, position_ids):
    cos = cos[position_ids].unsqueeze(1)
    sin = sin[position_ids].unsqueeze(1)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed + 0, k_embed


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = Norm(8), Norm(8)

    def again(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        q, k = tfr.rope(q, k, cos, sin, layout="half", unsqueeze_dim=1, inner=rotate_half)
        return q, k


def cases(dtype):
    angles = torch.rand(5, 4).repeat(1, 2)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    q, k = torch.randn(2, 5, 2, 8, dtype=dtype), torch.randn(2, 5, 2, 8, dtype=dtype)
    attn, before = Attn().to(dtype), rotate_half
    for helper in (before, lambda x: x.flip(-1)):
        globals()["rotate_half"] = helper
        yield apply(q.transpose(1, 2), k.transpose(1, 2), cos, sin, torch.arange(5)[None])
        yield attn.again(q, k, cos[None], sin[None])
    globals()["rotate_half"] = before
