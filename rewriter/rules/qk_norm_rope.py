"""qk_norm_rope: per-head RMS norm of q and k, the transpose to [b, h, s, d], and rotary position embedding.

q, k: [b, s, h, d]; q_norm, k_norm: modules whose forward is one rms_norm over d; cos, sin: [b, s, d]. `out` "bhsd" gives the transposed layout as a
view, "bshd" keeps the layout. Rounding points are those of the norms and of rope.
"""

from tfrewrite.rules import Const, Norm, Tensor, op, ref
from tfrewrite.rules.rope import half

op(
    "qk_norm_rope(Tensor q, Tensor k, Module q_norm, Module k_norm, Tensor cos, Tensor sin, *, str layout, int unsqueeze_dim, str out) -> (Tensor, Tensor)"
)


@ref(
    "qk_norm_rope(q, k, q_norm, k_norm, cos, sin, layout='half', unsqueeze_dim=dim, out='bhsd')",
    fallback="via(q_norm(q).transpose(1, 2), k_norm(k).transpose(1, 2), cos, sin)",
)
def norm_transpose_rope(
    q: Tensor, k: Tensor, q_norm: Norm, k_norm: Norm, cos: Tensor, sin: Tensor, dim: Const
):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(q_norm(q).transpose(1, 2), cos, sin), half(k_norm(k).transpose(1, 2), cos, sin)


@ref(
    "qk_norm_rope(q, k, q_norm, k_norm, cos, sin, layout='half', unsqueeze_dim=dim, out='same')",
    fallback="via(q_norm(q), k_norm(k), cos, sin)",
)
def norm_rope(
    q: Tensor, k: Tensor, q_norm: Norm, k_norm: Norm, cos: Tensor, sin: Tensor, dim: Const
):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(q_norm(q), cos, sin), half(k_norm(k), cos, sin)


# Examples
ACCEPT = {}
REJECT = []
