"""qk_norm_rope: per-head RMS norm of q and k, the transpose to [b, h, s, d], and rotary position embedding.

q, k: [b, s, h, d]; q_norm, k_norm: modules whose forward is one rms_norm over d; cos, sin: [b, s, d]. `out` "bhsd" gives the transposed layout as a
view, "bshd" keeps the layout. Rounding points are those of the norms and of rope.
"""

from tfrewrite.rules import Const, Norm, Tensor, op, ref
from tfrewrite.rules.rope import half

op(
    "qk_norm_rope(Tensor q, Tensor k, Module q_norm, Module k_norm, Tensor cos, Tensor sin, *, str layout, int unsqueeze_dim, str out) -> (Tensor, Tensor)",
    cpu="qk_norm_rope.c",
    cuda="qk_norm_rope.cu",
    specialize="cos",
)


@ref(
    "qk_norm_rope(q, k, q_norm, k_norm, cos, sin, layout='half', unsqueeze_dim=dim, out='bhsd')",
    kernel="OUT=TRANSPOSED",
    fallback="via(q_norm(q).transpose(1, 2), k_norm(k).transpose(1, 2), cos, sin)",
)
def norm_transpose_rope(
    q: Tensor, k: Tensor, q_norm: Norm, k_norm: Norm, cos: Tensor, sin: Tensor, dim: Const
):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(q_norm(q).transpose(1, 2), cos, sin), half(k_norm(k).transpose(1, 2), cos, sin)


@ref(
    "qk_norm_rope(q, k, q_norm, k_norm, cos, sin, layout='half', unsqueeze_dim=dim, out='same')",
    kernel="OUT=SAME",
    fallback="via(q_norm(q), k_norm(k), cos, sin)",
)
def norm_rope(
    q: Tensor, k: Tensor, q_norm: Norm, k_norm: Norm, cos: Tensor, sin: Tensor, dim: Const
):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(q_norm(q), cos, sin), half(k_norm(k), cos, sin)


# Examples
HEAD = """
class N(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


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


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_norm = N(16)
        self.k_norm = N(16)
"""
ACCEPT = {
    "norm_transpose_rope": [
        HEAD
        + """
    def forward(self, q, k, cos, sin):
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        return apply_rotary_pos_emb(q, k, cos, sin)
"""
    ],
    "norm_rope": [
        HEAD
        + """
    def forward(self, q, k, cos, sin):
        q, k = self.q_norm(q), self.k_norm(k)
        q, k = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=2)
        return q, k
"""
    ],
}
REJECT = [
    # the norm comes after the rotation
    HEAD
    + """
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        return self.q_norm(q), self.k_norm(k)
""",
    # only q is normalised
    HEAD
    + """
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(self.q_norm(q).transpose(1, 2), k.transpose(1, 2), cos, sin)
        return q, k
""",
]
