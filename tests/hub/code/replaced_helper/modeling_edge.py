# An imported rotation behind norms is one op, which asks at each call whether it is still the one
# that rope.py defines: not that of another file, none made here, none with another helper inside.
# expect: fused rms_norm PackNorm.forward
# expect: fused qk_norm_rope QkNorm.forward "via=apply_rotary_pos_emb"
import sys

import torch
from torch import nn

from .rope import apply_rotary_pos_emb


class PackNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class QkNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_norm = PackNorm(8)
        self.k_norm = PackNorm(8)

    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


def tables(length, dtype):
    angles = torch.outer(torch.arange(float(length)), torch.tensor([1.0, 0.5, 0.1, 0.01]))
    angles = torch.cat((angles, angles), -1)[None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def cases(dtype):
    from . import other_rope, rope

    module = QkNorm().to(dtype)
    q, k = torch.randn(2, 5, 2, 8, dtype=dtype), torch.randn(2, 5, 2, 8, dtype=dtype)
    here = sys.modules[QkNorm.__module__]
    yield module(q, k, *tables(5, dtype))

    def apply_rotary_pos_emb(q, k, cos, sin):
        return k, q

    theirs = here.apply_rotary_pos_emb
    for helper in (other_rope.apply_rotary_pos_emb, apply_rotary_pos_emb, lambda *a: a[:2], theirs):
        here.apply_rotary_pos_emb = helper
        yield module(q, k, *tables(5, dtype))
    half = rope.rotate_half
    rope.rotate_half = lambda x: x.flip(-1)
    yield module(q, k, *tables(5, dtype))
    rope.rotate_half = half
    rope.apply_rotary_pos_emb = other_rope.apply_rotary_pos_emb  # this file has still the old one
    yield module(q, k, *tables(5, dtype))
    rope.apply_rotary_pos_emb = theirs
    theirs.__code__ = other_rope.apply_rotary_pos_emb.__code__
    yield module(q, k, *tables(5, dtype))
