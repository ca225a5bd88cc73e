# Things that happen to a norm on the way into the rotation: one norm for both, None, a scale
# after it, a use of its result.
# expect: either qk_norm_rope
# expect: either rope
# expect: fused rms_norm Norm.forward
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


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


class Base(nn.Module):
    def __init__(self, with_norm=True):
        super().__init__()
        self.q_norm = Norm(8) if with_norm else None
        self.k_norm = Norm(8) if with_norm else None
        self.with_norm = with_norm


class Shared(Base):
    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        k = self.q_norm(k).transpose(1, 2)
        return apply_rotary_pos_emb(q, k, cos, sin)


class Optional(Base):
    def forward(self, q, k, cos, sin):
        if self.with_norm:
            q = self.q_norm(q)
            k = self.k_norm(k)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


class Guarded(Base):
    def forward(self, q, k, cos, sin):
        q = (self.q_norm(q) if self.q_norm is not None else q).transpose(1, 2)
        k = (self.k_norm(k) if self.k_norm is not None else k).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


class Scaled(Base):
    def forward(self, q, k, cos, sin):
        q = (self.q_norm(q) * 0.5).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


class Used(Base):
    def forward(self, q, k, cos, sin):
        normed = self.q_norm(q)
        k = self.k_norm(k).transpose(1, 2)
        q, k = apply_rotary_pos_emb(normed.transpose(1, 2), k, cos, sin)
        return q, k, normed


class Written(Base):
    def forward(self, q, k, cos, sin):
        normed = self.q_norm(q)
        q.zero_()
        k = self.k_norm(k).transpose(1, 2)
        cos.mul_(2)
        q, k = apply_rotary_pos_emb(normed.transpose(1, 2), k, cos, sin)
        return q, k


class WrittenLater(Base):
    def forward(self, q, k, cos, sin):
        k = self.k_norm(k).transpose(1, 2)
        normed = self.q_norm(q)
        normed[..., 0] = 0
        k[..., 1] = 1
        q, k = apply_rotary_pos_emb(normed.transpose(1, 2), k, cos, sin)
        return q, k


class Conditional(Base):
    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        if self.with_norm:
            q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


class NoTranspose(Base):
    def forward(self, q, k, cos, sin):
        q = self.q_norm(q)
        k = self.k_norm(k)
        q, k = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=2)
        return q, k


class OneTranspose(Base):
    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).permute(0, 2, 1, 3)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


class OtherTranspose(Base):
    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(0, 1)
        k = self.k_norm(k).transpose(0, 1)
        q, k = apply_rotary_pos_emb(q, k, cos.transpose(0, 1), sin.transpose(0, 1), unsqueeze_dim=2)
        return q, k


class TransposeFirst(Base):
    def forward(self, q, k, cos, sin):
        q = self.q_norm(q.transpose(1, 2))
        k = self.k_norm(k.transpose(1, 2))
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k


KINDS = [
    Shared, Optional, Guarded, Scaled, Used, Written, WrittenLater, Conditional, NoTranspose, OneTranspose,
    OtherTranspose, TransposeFirst,
]


def cases(dtype):
    with torch.no_grad():
        for kind in KINDS:
            block = kind().to(dtype)
            q, k = torch.randn(2, 5, 4, 8, dtype=dtype), torch.randn(2, 5, 2, 8, dtype=dtype)
            cos, sin = torch.randn(2, 5, 8, dtype=dtype), torch.randn(2, 5, 8, dtype=dtype)
            yield block(q, k, cos, sin)
            yield q, k, cos, sin
        for kind in (Optional, Guarded):
            yield kind(False)(q, k, cos, sin)
        conditional = Conditional().to(dtype)
        conditional.with_norm = False
        yield conditional(q, k, cos, sin)
