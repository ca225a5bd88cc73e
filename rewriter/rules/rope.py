"""rope: rotary position embedding of q and k, or of one of them.

q: [b, h, s, d] or [b, s, h, d]; cos, sin: [b, s, r] with r = d (or less: `partial`, or `trailing` where the last r columns turn), given a head axis at
`unsqueeze_dim`. Pairs are (i, i + r/2) in layout "half" and (2i, 2i + 1) in "interleaved"; what follows these words says how the columns are taken apart. Each product and the sum round to the dtype that torch's promotion gives. `cast`: what
is computed in float32. Source: Su et al. 2021, arXiv:2104.09864.
"""

import torch
from tfrewrite.rules import Const, Scalar, Tensor, op, ref, refuse

op(
    "rope(Tensor q, Tensor? k, Tensor cos, Tensor sin, Tensor? position_ids, *, str layout, int? unsqueeze_dim, bool partial=False, bool trailing=False, str cast='') -> (Tensor, Tensor)",
    cpu="rope.c",
    cuda="rope.cu",
    specialize="cos",
)


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotate_chunks(x):
    """rotate_half, but for odd widths, where the first half is the larger one."""
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def rotate_pairs(x):
    x1 = x[..., ::2]
    x2 = x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def rotate_back(x):
    """By the negative angle (NanoChat)."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((x2, -x1), dim=-1)


def rotate_pairs_4d(x):
    x1 = x[:, :, :, ::2]
    x2 = x[:, :, :, 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def rotate_pairs_view(x):
    x1, x2 = x.view(*x.shape[:-1], -1, 2).unbind(dim=-1)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def rotate_pairs_reshape(x):
    x1, x2 = x.reshape(*x.shape[:-1], -1, 2).unbind(dim=-1)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def rotate_pairs_unflatten(x):
    x1, x2 = x.unflatten(-1, (-1, 2)).unbind(dim=-1)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def rotate_pairs_as(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape_as(x)


def half(x, cos, sin):
    return (x * cos) + (rotate_half(x) * sin)


def pairs(x, cos, sin):
    return (x * cos) + (rotate_pairs(x) * sin)


def half_width(x, cos, sin):
    """cos and sin of d / 2 columns, as gpt-oss has them."""
    first, second = torch.chunk(x, 2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@ref(
    "rope(q, k, cos, sin, layout='half', unsqueeze_dim=dim)",
    inner="rotate_half",
    kernel="LAYOUT=HALF ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def half_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


@ref(
    "rope(x, cos, sin, layout='half', unsqueeze_dim=dim)",
    inner="rotate_half",
    kernel="LAYOUT=HALF ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def half_one(x: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return (x * cos) + (rotate_half(x) * sin)


@ref(
    "rope(q, k, cos, sin, layout='half')",
    inner="rotate_half",
    kernel="LAYOUT=HALF ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def half_both_given(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor):
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


@ref(
    "rope(x, cos, sin, layout='half')",
    inner="rotate_half",
    kernel="LAYOUT=HALF ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def half_one_given(x: Tensor, cos: Tensor, sin: Tensor):
    return (x * cos) + (rotate_half(x) * sin)


@ref(
    "rope(q, k, cos, sin, layout='half_chunks')",
    inner="rotate_chunks",
    kernel="LAYOUT=HALF ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def chunks_both_given(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor):
    return (q * cos) + (rotate_chunks(q) * sin), (k * cos) + (rotate_chunks(k) * sin)


@ref(
    "rope(x, cos, sin, layout='half_chunks')",
    inner="rotate_chunks",
    kernel="LAYOUT=HALF ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def chunks_one_given(x: Tensor, cos: Tensor, sin: Tensor):
    return (x * cos) + (rotate_chunks(x) * sin)


@ref(
    "rope(q, k, cos, sin, layout='interleaved')",
    inner="rotate_pairs",
    kernel="LAYOUT=PAIRS ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_both_given(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor):
    return (q * cos) + (rotate_pairs(q) * sin), (k * cos) + (rotate_pairs(k) * sin)


@ref(
    "rope(x, cos, sin, layout='interleaved')",
    inner="rotate_pairs",
    kernel="LAYOUT=PAIRS ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_one_given(x: Tensor, cos: Tensor, sin: Tensor):
    return (x * cos) + (rotate_pairs(x) * sin)


@ref(
    "rope(x, cos, sin, layout='interleaved_4d')",
    inner="rotate_pairs_4d",
    kernel="LAYOUT=PAIRS ROUND=EACH PARTIAL=NO GIVEN=FOUR",
)
def pairs_one_given_4d(x: Tensor, cos: Tensor, sin: Tensor):
    """Of four dimensions exactly (GPT-J)."""
    return (x * cos) + (rotate_pairs_4d(x) * sin)


@ref(
    "rope(q, k, cos, sin, layout='interleaved_view')",
    inner="rotate_pairs_view",
    kernel="LAYOUT=PAIRS_VIEW ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_both_given_view(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor):
    return (q * cos) + (rotate_pairs_view(q) * sin), (k * cos) + (rotate_pairs_view(k) * sin)


@ref(
    "rope(x, cos, sin, layout='interleaved_view')",
    inner="rotate_pairs_view",
    kernel="LAYOUT=PAIRS_VIEW ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_one_given_view(x: Tensor, cos: Tensor, sin: Tensor):
    return (x * cos) + (rotate_pairs_view(x) * sin)


@ref(
    "rope(x, cos, sin, layout='interleaved_reshape')",
    inner="rotate_pairs_reshape",
    kernel="LAYOUT=PAIRS_VIEW ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_one_given_reshape_view(x: Tensor, cos: Tensor, sin: Tensor):
    return (x * cos) + (rotate_pairs_reshape(x) * sin)


@ref(
    "rope(x, cos, sin, layout='interleaved_unflatten')",
    inner="rotate_pairs_unflatten",
    kernel="LAYOUT=PAIRS ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_one_given_unflatten(x: Tensor, cos: Tensor, sin: Tensor):
    return (x * cos) + (rotate_pairs_unflatten(x) * sin)


@ref(
    "rope(q, k, cos, sin, layout='interleaved_as')",
    inner="rotate_pairs_as",
    kernel="LAYOUT=PAIRS ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_both_given_as(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor):
    return (q * cos) + (rotate_pairs_as(q) * sin), (k * cos) + (rotate_pairs_as(k) * sin)


@ref(
    "rope(q, k, cos, sin, layout='interleaved_view', cast='float32')",
    kernel="LAYOUT=PAIRS_VIEW ROUND=FLOAT32 PARTIAL=NO GIVEN=YES",
)
def pairs_both_given_view_float32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor):
    a, b = q.float(), k.float()
    a = (a * cos) + (rotate_pairs_view(a) * sin)
    b = (b * cos) + (rotate_pairs_view(b) * sin)
    return a.to(q.dtype), b.to(k.dtype)


@ref(
    "rope(q, k, cos, sin, layout='half_back', unsqueeze_dim=dim)",
    kernel="LAYOUT=HALF_BACK ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def half_both_back(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return (q * cos) + (rotate_back(q) * sin), (k * cos) + (rotate_back(k) * sin)


@ref(
    "rope(q, k, cos, sin, layout='half', unsqueeze_dim=dim, cast='result')",
    kernel="LAYOUT=HALF ROUND=RESULT PARTIAL=NO GIVEN=NO",
)
def half_both_cast_back(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(q, cos, sin).to(q.dtype), half(k, cos, sin).to(k.dtype)


@ref(
    "rope(q, k, cos, sin, layout='half', unsqueeze_dim=dim, cast='float32')",
    kernel="LAYOUT=HALF ROUND=FLOAT32 PARTIAL=NO GIVEN=NO",
)
def half_both_float32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(q.float(), cos, sin).to(q.dtype), half(k.float(), cos, sin).to(k.dtype)


@ref(
    "rope(q, k, cos, sin, layout='half', unsqueeze_dim=dim, cast='all_float32')",
    kernel="LAYOUT=HALF ROUND=FLOAT32 PARTIAL=NO GIVEN=NO",
)
def half_both_all_float32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim).float(), sin.unsqueeze(dim).float()
    return half(q.float(), cos, sin).to(q.dtype), half(k.float(), cos, sin).to(k.dtype)


@ref(
    "rope(q, k, cos, sin, layout='half', unsqueeze_dim=dim, partial=True)",
    kernel="LAYOUT=HALF ROUND=EACH PARTIAL=YES GIVEN=NO",
)
def half_both_partial(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    width = cos.shape[-1]
    return (
        torch.cat([half(q[..., :width], cos, sin), q[..., width:]], dim=-1),
        torch.cat([half(k[..., :width], cos, sin), k[..., width:]], dim=-1),
    )


@ref(
    "rope(q, k, cos, sin, layout='half_width', unsqueeze_dim=dim)",
    kernel="LAYOUT=HALF_WIDTH ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def half_width_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half_width(q, cos, sin), half_width(k, cos, sin)


@ref(
    "rope(x, cos, sin, layout='half_width')",
    kernel="LAYOUT=HALF_WIDTH ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def half_width_one_given(x: Tensor, cos: Tensor, sin: Tensor):
    return half_width(x, cos, sin)


@ref(
    "rope(q, k, cos, sin, layout='interleaved', unsqueeze_dim=dim)",
    kernel="LAYOUT=PAIRS ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def pairs_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return pairs(q, cos, sin), pairs(k, cos, sin)


@ref(
    "rope(q, k, cos, sin, layout='interleaved', unsqueeze_dim=dim, cast='float32')",
    kernel="LAYOUT=PAIRS ROUND=FLOAT32 PARTIAL=NO GIVEN=NO",
)
def pairs_both_float32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return pairs(q.float(), cos, sin).to(q.dtype), pairs(k.float(), cos, sin).to(k.dtype)


@ref(
    "rope(q, k, cos, sin, layout='interleaved', unsqueeze_dim=dim, partial=True)",
    kernel="LAYOUT=PAIRS_REPEAT ROUND=EACH PARTIAL=YES GIVEN=NO",
)
def pairs_both_partial(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    """cos and sin come as two equal halves (GLM): each angle is taken once and repeated for its pair."""
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    cos = cos[..., : cos.shape[-1] // 2].repeat_interleave(2, dim=-1)
    sin = sin[..., : sin.shape[-1] // 2].repeat_interleave(2, dim=-1)
    width = cos.shape[-1]
    return (
        torch.cat([pairs(q[..., :width], cos, sin), q[..., width:]], dim=-1),
        torch.cat([pairs(k[..., :width], cos, sin), k[..., width:]], dim=-1),
    )


@ref(
    "rope(x, cos, sin, layout='interleaved_width', unsqueeze_dim=dim, trailing=True, cast='float32')",
    kernel="LAYOUT=PAIRS_WIDTH ROUND=FLOAT32 PARTIAL=LAST GIVEN=NO",
)
def pairs_one_trailing_width(x: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    """cos and sin have one column for each pair (DeepSeek V4)."""
    cos = cos.repeat_interleave(2, dim=-1).unsqueeze(dim)
    sin = sin.repeat_interleave(2, dim=-1).unsqueeze(dim)
    width = cos.shape[-1]
    last = x[..., -width:]
    last = (last.float() * cos) + (rotate_pairs(last).float() * sin)
    return torch.cat([x[..., :-width], last.to(x.dtype)], dim=-1)


@ref(
    "rope(x, cos, sin, layout='interleaved_width')",
    kernel="LAYOUT=PAIRS_WIDTH ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_width_one_given(x: Tensor, cos: Tensor, sin: Tensor):
    """cos and sin have one column for each pair, and the results are joined pair by pair."""
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1).flatten(-2)


@ref(
    "rope(q, k, cos, sin, layout='interleaved', unsqueeze_dim=dim, cast='float32_late_as_q')",
    kernel="LAYOUT=PAIRS ROUND=FLOAT32_AS_Q PARTIAL=NO GIVEN=NO",
)
def pairs_both_float32_late(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    """The pairs change places before the cast, which gives the same bits (ERNIE 4.5)."""
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return (
        ((q.float() * cos) + (rotate_pairs(q).float() * sin)).to(q.dtype),
        ((k.float() * cos) + (rotate_pairs(k).float() * sin)).to(q.dtype),
    )


@ref(
    "rope(q, k, cos, sin, layout='half', unsqueeze_dim=dim, cast='float32_as_q')",
    kernel="LAYOUT=HALF ROUND=FLOAT32_AS_Q PARTIAL=NO GIVEN=NO",
)
def half_both_float32_as_q(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    """k is cast back to q's dtype, as ESM and ModernBERT do."""
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(q.float(), cos, sin).to(q.dtype), half(k.float(), cos, sin).to(q.dtype)


@ref(
    "rope(q, k, cos, sin, layout='half', unsqueeze_dim=dim, cast='all_float32_as_q')",
    kernel="LAYOUT=HALF ROUND=FLOAT32_AS_Q PARTIAL=NO GIVEN=NO",
)
def half_both_all_float32_as_q(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim).float(), sin.unsqueeze(dim).float()
    return half(q.float(), cos, sin).to(q.dtype), half(k.float(), cos, sin).to(q.dtype)


@ref(
    "rope(q, k, cos, sin, layout='interleaved', unsqueeze_dim=dim, cast='float32_as_q')",
    kernel="LAYOUT=PAIRS ROUND=FLOAT32_AS_Q PARTIAL=NO GIVEN=NO",
)
def pairs_both_float32_as_q(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return pairs(q.float(), cos, sin).to(q.dtype), pairs(k.float(), cos, sin).to(q.dtype)


def repeat_first_half(x):
    """Two equal halves to one angle per pair: [a, b, a, b] becomes [a, a, b, b]."""
    return x[..., : x.shape[-1] // 2].repeat_interleave(2, dim=-1)


@ref(
    "rope(q, k, cos, sin, layout='interleaved_repeat', unsqueeze_dim=dim)",
    kernel="LAYOUT=PAIRS_REPEAT ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def pairs_both_repeat(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = repeat_first_half(cos.unsqueeze(dim)), repeat_first_half(sin.unsqueeze(dim))
    return pairs(q, cos, sin), pairs(k, cos, sin)


@ref(
    "rope(q, k, cos, sin, layout='interleaved_repeat', unsqueeze_dim=dim, cast='float32_as_q')",
    kernel="LAYOUT=PAIRS_REPEAT ROUND=FLOAT32_AS_Q PARTIAL=NO GIVEN=NO",
)
def pairs_both_repeat_float32(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = repeat_first_half(cos.unsqueeze(dim)), repeat_first_half(sin.unsqueeze(dim))
    return (
        ((q.float() * cos) + (rotate_pairs(q).float() * sin)).to(q.dtype),
        ((k.float() * cos) + (rotate_pairs(k).float() * sin)).to(q.dtype),
    )


def pairs_to_half(x, cos, sin):
    """Reads pairs (2i, 2i + 1), writes halves, as DeepSeek's apply_rotary_pos_emb_interleave."""
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


@ref(
    "rope(q, k, cos, sin, layout='interleaved_to_half', unsqueeze_dim=dim)",
    kernel="LAYOUT=PAIRS_TO_HALF ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def pairs_to_half_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos = cos[..., : cos.shape[-1] // 2].unsqueeze(dim)
    sin = sin[..., : sin.shape[-1] // 2].unsqueeze(dim)
    return pairs_to_half(q, cos, sin), pairs_to_half(k, cos, sin)


@ref(
    "rope(x, cos, sin, layout='interleaved_to_half_width')",
    kernel="LAYOUT=PAIRS_TO_HALF_WIDTH ROUND=EACH PARTIAL=NO GIVEN=YES",
)
def pairs_to_half_width_one_given(x: Tensor, cos: Tensor, sin: Tensor):
    return pairs_to_half(x, cos, sin)


def regroup(x):
    """[a0, b0, a1, b1, ...] to [a0, a1, ..., b0, b1, ...], through a view."""
    b, h, s, d = x.shape
    return x.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)


@ref(
    "rope(q, k, cos, sin, layout='regrouped', unsqueeze_dim=dim)",
    kernel="LAYOUT=REGROUPED ROUND=EACH PARTIAL=NO GIVEN=NO",
)
def regrouped_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, dim: Const):
    cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
    return half(regroup(q), cos, sin), half(regroup(k), cos, sin)


@ref("rope(q, k, cos, sin, position_ids, layout='half', unsqueeze_dim=dim)")
def half_both_by_position(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor, dim: Const
):
    """cos and sin are tables [positions, d], looked up here, as Transformers did before 4.38."""
    cos, sin = cos[position_ids].unsqueeze(dim), sin[position_ids].unsqueeze(dim)
    return half(q, cos, sin), half(k, cos, sin)


@refuse("rope written with complex numbers; with cos and sin as real tensors it would be fused")
def complex_numbers(x: Tensor, freqs: Tensor):
    return torch.view_as_real(torch.view_as_complex(x) * freqs)


@refuse(
    "rope written as products with 2 x 2 matrices and a sum over them; written as x * cos + rotated * sin it would be fused"
)
def matrices(x: Tensor, angles: Tensor):
    return (x.reshape(*x.shape[:-1], -1, 1, 2) * angles).sum(5).flatten(3)


@refuse(
    "the halves are cut at an attribute, which need not be half of the width, and joined along a computed axis; cut at x.shape[-1] // 2 and joined along dim=-1 it would be fused"
)
def cut_at_a_number(x: Tensor, cos: Tensor, sin: Tensor, size: Scalar):
    x1, x2 = x[..., : size // 2], x[..., size // 2 :]
    return (x * cos) + (torch.cat((-x2, x1), dim=x1.ndim - 1) * sin)


# Examples
CALL = """

class M(nn.Module):
    def forward(self, q, k, cos, sin):
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q, k
"""
ONE = """

class M(nn.Module):
    def forward(self, q, cos, sin):
        return apply_rotary_pos_emb(q, cos, sin)
"""
HALF = """
def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)
"""
CHUNKS = """
def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)
"""
WIDTH = """
def rotate(x, cos, sin):
    first_half, second_half = torch.chunk(x, 2, dim=-1)
    first_ = first_half * cos - second_half * sin
    second_ = second_half * cos + first_half * sin
    return torch.cat((first_, second_), dim=-1)
"""
PAIRS = """
def rotate_half(x):
    x1 = x[..., 0::2]
    x2 = x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)
"""
VIEW = """
def rotate_pairs(x):
    x = x.view(*x.shape[:-1], -1, 2)
    x1, x2 = x.unbind(dim=-1)
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(start_dim=-2)
"""
UNSQUEEZE = ("cos = cos.unsqueeze(unsqueeze_dim)", "sin = sin.unsqueeze(unsqueeze_dim)")
ROTATE = (
    "q_embed = (q * cos) + (rotate_half(q) * sin)",
    "k_embed = (k * cos) + (rotate_half(k) * sin)",
)
FLOATS = (
    "q_embed = (q.float() * cos) + (rotate_half(q.float()) * sin)",
    "k_embed = (k.float() * cos) + (rotate_half(k.float()) * sin)",
)
REPEAT = (
    "cos = cos[..., : cos.shape[-1] // 2].repeat_interleave(2, dim=-1)",
    "sin = sin[..., : sin.shape[-1] // 2].repeat_interleave(2, dim=-1)",
)
TWICE = (
    "cos = cos.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim)",
    "sin = sin.repeat_interleave(2, dim=-1).unsqueeze(unsqueeze_dim)",
)
PARTIAL = (
    "width = cos.shape[-1]",
    "q_rot, q_pass = q[..., :width], q[..., width:]",
    "k_rot, k_pass = k[..., :width], k[..., width:]",
    "q_embed = (q_rot * cos) + (rotate_half(q_rot) * sin)",
    "k_embed = (k_rot * cos) + (rotate_half(k_rot) * sin)",
    "return torch.cat([q_embed, q_pass], dim=-1), torch.cat([k_embed, k_pass], dim=-1)",
)
BOTH = "return q_embed, k_embed"
AS_Q = "return q_embed.to(dtype), k_embed.to(dtype)"


def example(rotate, *lines, signature="q, k, cos, sin, unsqueeze_dim=1", call=CALL):
    body = "".join(f"    {line}\n" for line in lines)
    return f"{rotate}\n\ndef apply_rotary_pos_emb({signature}):\n{body}{call}"


def example_of_one(rotate, *lines, signature="q, cos, sin, unsqueeze_dim=1"):
    return example(rotate, *lines, signature=signature, call=ONE)


HELPERS = example(HALF, *UNSQUEEZE, *ROTATE, BOTH, call="\n\nclass M(nn.Module):\n")
SPLIT = """

def apply_rotary_pos_emb(q, k, cos, sin):
    q_first, q = q.split((1, q.shape[-2] - 1), dim=-2)
    k_first, k = k.split((1, k.shape[-2] - 1), dim=-2)
    q = (q * cos) + (rotate_half(q) * sin)
    k = (k * cos) + (rotate_half(k) * sin)
    return torch.cat((q_first, q), dim=-2), torch.cat((k_first, k), dim=-2)
"""
ONE_OF_TWO = """

def apply_rotary_pos_emb(q, k, cos, sin):
    q = (q * cos) + (rotate_half(q) * sin)
    return q if k is None else (q, (k * cos) + (rotate_half(k) * sin))
"""
FORWARD = """
    def forward(self, q, k, cos, sin):
        return apply_rotary_pos_emb(k, q, cos, sin)
"""
ACCEPT = {
    "half_one": [
        example_of_one(HALF, *UNSQUEEZE, "return (q * cos) + (rotate_half(q) * sin)"),
    ],
    "half_one_given": [
        example_of_one(HALF, "return (q * cos) + (rotate_half(q) * sin)", signature="q, cos, sin"),
        HALF + ONE_OF_TWO,
    ],
    "half_both_given": [
        example(HALF, *ROTATE, BOTH, signature="q, k, cos, sin"),
        HALF + SPLIT,
    ],
    "pairs_one_given": [PAIRS + ONE_OF_TWO],
    "pairs_both_given": [
        example(PAIRS, *ROTATE, BOTH, signature="q, k, cos, sin"),
        PAIRS + SPLIT,
    ],
    "pairs_one_given_4d": [PAIRS.replace("...,", ":, :, :,") + ONE_OF_TWO],
    "pairs_one_given_view": [VIEW + ONE_OF_TWO.replace("half", "pairs")],
    "pairs_both_given_view": [VIEW + SPLIT.replace("half", "pairs")],
    "pairs_both_given_view_float32": [
        example(
            VIEW,
            "q_embed, k_embed = q.float(), k.float()",
            "q_embed = (q_embed * cos) + (rotate_pairs(q_embed) * sin)",
            "k_embed = (k_embed * cos) + (rotate_pairs(k_embed) * sin)",
            "return q_embed.type_as(q), k_embed.type_as(k)",
            signature="q, k, cos, sin",
        )
    ],
    "pairs_one_given_reshape_view": [
        VIEW.replace("x.view", "x.reshape") + ONE_OF_TWO.replace("half", "pairs")
    ],
    "pairs_one_given_unflatten": [
        VIEW.replace("x.view(*x.shape[:-1], -1, 2)", "x.unflatten(-1, (-1, 2))")
        + ONE_OF_TWO.replace("half", "pairs")
    ],
    "pairs_both_given_as": [
        example(
            "",
            "turned = torch.stack([-q[..., 1::2], q[..., ::2]], dim=-1).reshape_as(q)",
            "q = q * cos + turned * sin",
            "turned = torch.stack([-k[..., 1::2], k[..., ::2]], dim=-1).reshape_as(k)",
            "return q, k * cos + turned * sin",
        )
    ],
    "half_width_one_given": [WIDTH],
    "chunks_both_given": [example(CHUNKS, *UNSQUEEZE, *ROTATE, BOTH)],
    "chunks_one_given": [CHUNKS + ONE_OF_TWO],
    "half_both_back": [example(HALF.replace("(-x2, x1)", "(x2, -x1)"), *UNSQUEEZE, *ROTATE, BOTH)],
    "pairs_one_trailing_width": [
        example_of_one(
            PAIRS,
            *TWICE,
            "rope_dim = cos.shape[-1]",
            "nope, rope = q[..., :-rope_dim], q[..., -rope_dim:]",
            "rope = ((rope.float() * cos) + (rotate_half(rope).float() * sin)).to(q.dtype)",
            "return torch.cat([nope, rope], dim=-1)",
        )
    ],
    "pairs_width_one_given": [
        example_of_one(
            "",
            "first_half, second_half = q[..., ::2], q[..., 1::2]",
            "first_ = first_half * cos - second_half * sin",
            "second_ = second_half * cos + first_half * sin",
            "return torch.stack((first_, second_), dim=-1).flatten(-2)",
            signature="q, cos, sin",
        )
    ],
    "pairs_both_float32_late": [
        example(
            PAIRS,
            "dtype = q.dtype",
            *UNSQUEEZE,
            "q_embed = (q.float() * cos) + (rotate_half(q).float() * sin)",
            "k_embed = (k.float() * cos) + (rotate_half(k).float() * sin)",
            AS_Q,
        )
    ],
    "pairs_to_half_width_one_given": [
        """
def apply_rotary_pos_emb_interleave(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos[..., : cos.shape[-1] // 2].unsqueeze(unsqueeze_dim)
    sin = sin[..., : sin.shape[-1] // 2].unsqueeze(unsqueeze_dim)
    q1, q2 = q[..., 0::2], q[..., 1::2]
    q = torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], dim=-1)
    if k is not None:
        k1, k2 = k[..., 0::2], k[..., 1::2]
        k = torch.cat([k1 * cos - k2 * sin, k2 * cos + k1 * sin], dim=-1)
    return q, k
"""
    ],
    "half_both_cast_back": [
        example(HALF, *UNSQUEEZE, *ROTATE, "return q_embed.to(q.dtype), k_embed.to(k.dtype)")
    ],
    "half_both_float32": [
        example(HALF, *UNSQUEEZE, *FLOATS, "return q_embed.type_as(q), k_embed.type_as(k)")
    ],
    "half_both_all_float32": [
        example(
            HALF,
            "q_dtype, k_dtype = q.dtype, k.dtype",
            "q, k = q.float(), k.float()",
            "cos, sin = cos.unsqueeze(unsqueeze_dim).float(), sin.unsqueeze(unsqueeze_dim).float()",
            *ROTATE,
            "return q_embed.to(q_dtype), k_embed.to(k_dtype)",
        )
    ],
    "half_both_partial": [example(HALF, *UNSQUEEZE, *PARTIAL)],
    "half_width_both": [
        example(WIDTH, *UNSQUEEZE, "return rotate(q, cos, sin), rotate(k, cos, sin)")
    ],
    "pairs_both": [example(PAIRS, *UNSQUEEZE, *ROTATE, BOTH)],
    "pairs_both_float32": [
        example(PAIRS, *UNSQUEEZE, *FLOATS, "return q_embed.to(q.dtype), k_embed.to(k.dtype)")
    ],
    "pairs_both_partial": [example(PAIRS, *UNSQUEEZE, *REPEAT, *PARTIAL)],
    "half_both_float32_as_q": [example(HALF, "dtype = q.dtype", *UNSQUEEZE, *FLOATS, AS_Q)],
    "half_both_all_float32_as_q": [
        example(
            HALF,
            "dtype = q.dtype",
            "q, k = q.float(), k.float()",
            "cos, sin = cos.unsqueeze(unsqueeze_dim).float(), sin.unsqueeze(unsqueeze_dim).float()",
            *ROTATE,
            AS_Q,
        )
    ],
    "pairs_both_float32_as_q": [
        example(
            PAIRS, "dtype = q.dtype", "q = q.float()", "k = k.float()", *UNSQUEEZE, *ROTATE, AS_Q
        )
    ],
    "pairs_both_repeat": [example(PAIRS, *UNSQUEEZE, *REPEAT, *ROTATE, BOTH)],
    "pairs_both_repeat_float32": [
        example(
            PAIRS,
            "dtype = q.dtype",
            *UNSQUEEZE,
            *REPEAT,
            "q_embed = (q.float() * cos) + (rotate_half(q).float() * sin)",
            "k_embed = (k.float() * cos) + (rotate_half(k).float() * sin)",
            AS_Q,
        )
    ],
    "pairs_to_half_both": [
        example(
            "",
            "cos = cos[..., : cos.shape[-1] // 2].unsqueeze(unsqueeze_dim)",
            "sin = sin[..., : sin.shape[-1] // 2].unsqueeze(unsqueeze_dim)",
            "q1, q2 = q[..., 0::2], q[..., 1::2]",
            "k1, k2 = k[..., 0::2], k[..., 1::2]",
            "q_embed = torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], dim=-1)",
            "k_embed = torch.cat([k1 * cos - k2 * sin, k2 * cos + k1 * sin], dim=-1)",
            BOTH,
        )
    ],
    "regrouped_both": [
        example(
            HALF,
            *UNSQUEEZE,
            "b, h, s, d = q.shape",
            "q = q.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)",
            "b, h, s, d = k.shape",
            "k = k.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)",
            *ROTATE,
            BOTH,
        )
    ],
    "half_both_by_position": [
        example(
            HALF,
            "cos, sin = cos[position_ids], sin[position_ids]",
            *UNSQUEEZE,
            *ROTATE,
            BOTH,
            signature="q, k, cos, sin, position_ids, unsqueeze_dim=1",
            call=CALL.replace("cos, sin)", "cos, sin, ids)"),
        )
    ],
    "half_both": [
        HELPERS + FORWARD,
        HELPERS + FORWARD.replace("cos, sin):", "both):\n        cos, sin = both", 1),
        HELPERS + FORWARD.replace("sin)\n", "sin, unsqueeze_dim=2)\n"),
    ],
}
REJECT = [
    # no sign at all; the halves in their own places; both signs
    HELPERS.replace("(-x2, x1)", "(x2, x1)") + FORWARD,
    HELPERS.replace("(-x2, x1)", "(-x1, x2)") + FORWARD,
    HELPERS.replace("(-x2, x1)", "(-x2, -x1)") + FORWARD,
    # three chunks; chunks of rows
    CHUNKS.replace("2, dim=-1", "3, dim=-1").replace("x2 =", "x2, _ =") + ONE_OF_TWO,
    CHUNKS.replace("2, dim=-1", "2, dim=-2") + ONE_OF_TWO,
    # the angles change places; the rotated one is another tensor
    HALF + ONE_OF_TWO.replace("(q) * sin", "(k) * sin").replace("(k * cos)", "(q * cos)"),
    # pairs of rows, not of columns
    PAIRS.replace("[..., 0::2]", "[..., 0::2, :]").replace("[..., 1::2]", "[..., 1::2, :]")
    + ONE_OF_TWO,
    # pairs apart by another width
    VIEW.replace("-1, 2)", "2, -1)") + ONE_OF_TWO.replace("half", "pairs"),
    # what passes comes last, while the last columns turn
    example_of_one(
        PAIRS,
        *TWICE,
        "rest, last = q[..., : -cos.shape[-1]], q[..., -cos.shape[-1] :]",
        "last = ((last.float() * cos) + (rotate_half(rest).float() * sin)).to(q.dtype)",
        "return torch.cat([last, rest], dim=-1)",
    ),
]
