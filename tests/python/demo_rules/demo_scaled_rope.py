"""demo_scaled_rope: scales q and k, then demo_rope. Uses a helper of another rule file."""

from tfrewrite.rules import Const, Tensor, op, ref
from tfrewrite.rules.demo_rope import half

op(
    "demo_scaled_rope(Tensor q, Tensor k, float s, Tensor cos, Tensor sin, *, int unsqueeze_dim)"
    " -> Tensor[2]"
)


@ref(
    "demo_scaled_rope(q, k, s, cos, sin, unsqueeze_dim=dim)",
    fallback="via(q * s, k * s, cos, sin)",
)
def scaled(q: Tensor, k: Tensor, s, cos: Tensor, sin: Tensor, dim: Const):
    return half(q * s, k * s, cos, sin, dim)
