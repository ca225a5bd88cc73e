"""Arguments of the ops: values, and every way in which rows lie in memory. Knows the
ops' arguments, no kernel and no device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from tfrewrite import activations

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
DTYPES = (F32, BF16, F16)
# For sizes and arrangements, where the two 16-bit dtypes, one code but for the conversions that
# other tests hold, take turns.
WIDE_AND_NARROW = ((F32, BF16), (F32, F16))
# Of act_mul's references: those that are one activation, and the numbers that others take.
FUNCTIONS = {
    "gelu_tanh_function": "GELU_TANH",
    "squared_relu_function": "RELU2",
    "sigmoid_function": "SIGMOID",
    "swish_function": "SWISH",
    "sloped_function": "SLOPED",
    "two_inputs_sloped": "SLOPED",
    "packed_gate_first_sloped": "SLOPED",
    "packed_interleaved_sloped": "SLOPED",
}
LIMIT, SLOPE = 1.3, 1.702
INF, NAN = float("inf"), float("nan")
Make = Callable[[tuple, torch.dtype, int], torch.Tensor]

# Where a kernel's way through a row changes: one element, less than a pack of 128 bits, one, more;
# whole warps, a warp's limit, a block's; the widest that stays in registers, and wider; odd ones.
WIDTHS = (1, 2, 3, 7, 8, 64, 127, 128, 1000, 1024, 2560, 2561, 4096, 16384, 16392, 40000, 262144)
HEADS = (2, 6, 64, 80, 96, 128, 256)
ODD_HEADS = (1, 3, 7, 33, 129)


def values(shape, dtype, seed, scale=1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def exact(shape, dtype, seed) -> torch.Tensor:
    """Small multiples of a power of 2: their squares have the same f32 sum in every order."""
    generator = torch.Generator().manual_seed(seed)
    most = 32 if shape[-1] <= 4096 else 2
    return (torch.randint(-most, most + 1, shape, generator=generator) / 8).to(dtype)


def shifted(t: torch.Tensor) -> torch.Tensor:
    """The same tensor one element further on in memory, so that no access of 128 bits is aligned."""
    room = torch.empty(t.numel() + 1, dtype=t.dtype)[1:].view(t.shape)
    return room.copy_(t)


def laid(t: torch.Tensor, aligned: bool, apart: bool = False) -> torch.Tensor:
    """The same tensor, its rows in the same order in memory: each padded so that it starts at a
    multiple of 16 bytes, or one element behind where it would. `apart`: with a gap between any two
    dimensions, so that a kernel has to count in each.
    """
    order = sorted(range(t.dim() - 1), key=lambda i: -t.stride(i))
    width = -(-t.shape[-1] // 8) * 8 if aligned else t.shape[-1]
    sizes = [t.shape[i] for i in order]
    room = [*sizes[:1], *(n + apart for n in sizes[1:]), width]
    flat = torch.full((math.prod(room) + 1 - aligned,), NAN, dtype=t.dtype)
    placed = flat[1 - aligned :].view(room)[(*(slice(n) for n in sizes), slice(t.shape[-1]))]
    placed = placed.permute(*(order.index(i) for i in range(t.dim() - 1)), t.dim() - 1)
    return placed.copy_(t)


def every_rank(width, dtype, make: Make = exact, rows=150) -> Iterator[torch.Tensor]:
    """Rows that need one, two, three and four dimensions to find, or many of one, each aligned and
    not.
    """
    for aligned in (True, False):
        yield laid(make((5, width), dtype, 1), aligned)
        yield laid(make((rows, width), dtype, 12), aligned)
        yield laid(make((3, 5, width), dtype, 2).permute(1, 0, 2), aligned, apart=True)
        yield laid(make((4, 2, 3, width), dtype, 3).permute(2, 1, 0, 3), aligned, apart=True)
        yield laid(make((2, 5, 3, 4, width), dtype, 4).permute(3, 1, 0, 2, 4), aligned, apart=True)


def arrangements(width, dtype, make: Make = exact) -> Iterator[torch.Tensor]:
    """Rows in every way that leaves the last dimension the innermost and dense."""
    yield make((0, width), dtype, 1)  # no rows
    yield make((4, 0, width), dtype, 1)  # no rows, three dimensions
    yield make((width,), dtype, 1)  # one dimension
    yield make((1, 1, width), dtype, 1)  # one row
    yield make((3, 7, width), dtype, 1)  # an odd number
    yield shifted(make((5, width), dtype, 1))  # not aligned
    yield make((2, 3, 5, width), dtype, 1)  # four dimensions
    yield make((2, 3, 5, width), dtype, 1).transpose(1, 2)  # transposed heads
    yield make((10, width), dtype, 1)[::2]  # every other row
    yield make((6, width + 8), dtype, 1)[:, 8:]  # padded rows, aligned
    yield make((6, width + 3), dtype, 1)[:, 2 : width + 2]  # padded, no two rows aligned alike
    yield make((1, 3, width), dtype, 1).expand(4, 3, width)  # repeated rows
    yield make((5, 3, width), dtype, 1).permute(1, 0, 2)  # batch last
    yield make((4, 3, width), dtype, 1)[1:2, :, :]  # size 1 with a strange stride
    yield make((3, 4, 2, 5, width), dtype, 1)[:, :2, :, :3].permute(2, 0, 3, 1, 4)  # nothing joins


def special_rows(width, dtype) -> torch.Tensor:
    """NaN, infinities, numbers whose squares overflow or vanish, denormals, zeros of both signs."""
    rows = torch.zeros(14, width)
    rows[1, width // 2] = NAN
    rows[2, width // 3] = INF
    rows[3, 0], rows[3, -1] = -INF, INF
    rows[4] = 3e38
    rows[5] = 1e30
    rows[6] = 65504.0  # f16's largest
    rows[7] = 1e-30
    rows[8] = torch.arange(width) * 2.0**-140
    rows[9] = torch.arange(width) * 2.0**-24  # f16's denormals
    rows[10] = torch.tensor([-0.0, 0.0]).repeat(width)[:width]
    rows[11:] = 1.0
    rows[12, -1] = NAN
    return rows.to(dtype)


# ------------------------------------------------------------------ arguments of ops
def has_weight(norm) -> bool:
    return "weight" in norm.parameters


def norm_arguments(norm, x, weight, eps=1e-6) -> tuple:
    return (x, weight, eps) if has_weight(norm) else (x, eps)


def add_norm_arguments(numbered, x, residual, weight, eps=1e-6) -> tuple:
    number, norm = numbered
    return x, residual, weight if has_weight(norm) else None, eps, number


def gated_arguments(variant, x, gate, act, weight, groups=1, norm_first=1) -> tuple:
    """Of gated_rms_norm, `groups` where the reference has groups at all."""
    numbers = ()
    if variant == "gate_then_norm_of_groups":
        numbers = (x.shape[-1] // groups,)
    elif variant == "groups_of_rows_gated_before_or_after":
        numbers = (groups, norm_first)
    return x, gate, act, weight, 1e-6, *numbers


# Forms of l2_norm that kernels take in float32 alone.
FLOAT32_ALONE = ("by_rsqrt", "by_rsqrt_of_mean")


def l2_arguments(variant, x, eps=1e-6) -> tuple:
    """Of l2_norm, over the last axis."""
    if variant in ("by_pow", "by_norm"):
        return (x,)
    return (x, eps, -1) if variant in ("by_rsqrt", "by_sqrt") else (x, eps)


def act_arguments(variant, act, gate, up) -> tuple:
    """`act` by name; of a variant that is one activation, it is that."""
    first = () if variant in FUNCTIONS else (activations.ACTS.index(act),)
    numbers = act_numbers(variant)
    if not variant.startswith("packed"):
        return *first, gate, up, *numbers
    if "interleaved" in variant:
        return *first, torch.stack((gate, up), -1).flatten(-2), *numbers
    halves = (up, gate) if "up_first" in variant else (gate, up)
    return *first, torch.cat(halves, -1), *numbers, -1


def is_clamped(variant) -> bool:
    return "clamped" in variant or variant.endswith("_sloped")


def act_numbers(variant) -> tuple:
    return (LIMIT,) * is_clamped(variant) + (SLOPE,) * ("sloped" in variant)


# Of rope's references.
# Parts of a reference's name: no unsqueeze_dim; x alone; cos has half the columns.
GIVEN, ONE, COS_PER_PAIR = "given", "_one", "_width"


def tables(variant, batch, seq, head, dtype, make: Make = values) -> tuple:
    partial = variant.endswith("partial") or "trailing" in variant
    columns = max(2, head // 4 * 2) if partial else head
    if COS_PER_PAIR in variant:
        columns //= 2
    cos, sin = make((batch, seq, columns), dtype, 7), make((batch, seq, columns), dtype, 8)
    return (cos.unsqueeze(1), sin.unsqueeze(1)) if GIVEN in variant else (cos, sin)


def rope_arguments(variant, q, k, cos, sin, dim=1) -> tuple:
    return q, *(() if ONE in variant else (k,)), cos, sin, *(() if GIVEN in variant else (dim,))


def heads_first(shape, dtype, seed, transposed=False, make: Make = values) -> torch.Tensor:
    """[batch, heads, seq, head]; transposed: as the view of a projection has it."""
    if not transposed:
        return make(shape, dtype, seed)
    batch, heads, seq, head = shape
    return make((batch, seq, heads, head), dtype, seed).transpose(1, 2)


def norm_rope_arguments(
    variant, numbered, shape, kv_heads=2, dtypes=(F32, F32, F32), make: Make = exact
) -> list:
    """For q of `shape` [batch, seq, heads, head]; dtypes of q and k, of cos and sin, of weights."""
    number, norm = numbered
    batch, seq, _, head = shape
    q, k = make(shape, dtypes[0], 1), make((batch, seq, kv_heads, head), dtypes[0], 2)
    cos, sin = tables(variant, batch, seq, head, dtypes[1])
    weights = [values((head,), dtypes[2], 5 + i) if has_weight(norm) else None for i in range(2)]
    dim = 1 if variant == "norm_transpose_rope" else 2
    return [q, k, weights[0], 1e-6, number, weights[1], 2e-5, number, cos, sin, dim]
