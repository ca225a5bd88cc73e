"""The kernels of rope and qk_norm_rope against the reference functions of their rules.

To the bit, strides included: rope has no reductions, and the norms of qk_norm_rope get values whose
sums of squares are exact in any order. A NaN may have any bits.
"""

import itertools

import modes
import pytest
import torch
from tfrewrite import kernels, rules

pytestmark = pytest.mark.kernels
OPS = rules.load()
F32, BF16 = torch.float32, torch.bfloat16
BITS = {F32: torch.int32, BF16: torch.int16}

VARIANTS = [v for v in OPS["rope"].variants if v.kernel is not None]
ROPE = [v.name for v in VARIANTS]
# Parts of a reference's name: no unsqueeze_dim; x alone; cos has half the columns.
GIVEN, ONE, COS_PER_PAIR = "given", "_one", "_width"
NORM_ROPE = [v.name for v in OPS["qk_norm_rope"].variants if v.kernel is not None]
NORMS = [(i, v) for i, v in enumerate(OPS["rms_norm"].variants) if v.kernel is not None]
NO_WEIGHT = {v.name for _, v in NORMS if "weight" not in v.parameters}
DTYPES = list(itertools.product((F32, BF16), repeat=2))  # of x and of cos and sin

# A kernel is compiled for one width and set of dtypes at a time, so most tests have the same ones:
# halves of 40 columns are two blocks of 16 and a rest. The generic build has the same loops for
# all; there, more of them cost nothing.
GENERIC = modes.kernel_path() == "generic"
HEAD = 80
HEADS = [2, 4, 14, 16, 18, 64, 80, 96, 128, 256] if GENERIC else [6]
ODD = [1, 3, 7, 17, 33] if GENERIC else [7]


# Loops are a layout's, so compiled ones of other widths have one reference of each.
KINDS = {v.name: [w for w in v.kernel.split() if w[:6] in ("LAYOUT", "PARTIA")] for v in VARIANTS}
FIRSTS = [v for v in ROPE if v == next(w for w in ROPE if KINDS[w] == KINDS[v])]
LAYOUTS = ROPE if GENERIC else FIRSTS


def run(op, variant, *arguments):
    kernels.install(OPS)
    kernel = kernels.get(op, variant)
    assert kernel is not None, f"{op}.{variant} is not registered"
    result = kernel(*arguments)
    assert kernels.last_path() == modes.kernel_path()
    return result


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def check(op, variant, *arguments, bits=True, tolerance=0.0):
    wants = as_tuple(kernels.reference(OPS[op], variant)(*arguments))
    gots = as_tuple(run(op, variant, *arguments))
    assert len(gots) == len(wants)
    for got, want in zip(gots, wants):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert got.stride() == want.stride(), f"of {tuple(got.shape)}"
        if bits:
            assert_bits(got, want)
        else:
            far = (got.double() - want.double()).abs()
            assert far.max() <= tolerance * want.double().abs().max()
    return gots


def assert_bits(got, want):
    nan = want.isnan()
    assert torch.equal(got.isnan(), nan)
    kind = BITS[want.dtype]
    unlike = (got.contiguous().view(kind) != want.contiguous().view(kind)) & ~nan
    assert not unlike.any(), f"{int(unlike.sum())} of {want.numel()} elements differ"


def values(shape, dtype, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def exact(shape, dtype, seed):
    """Eighths up to 4: their squares add up to the same f32 in every order, for 256 of them."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-32, 33, shape, generator=generator) / 8).to(dtype)


def is_partial(variant):
    return variant.endswith("partial") or "trailing" in variant


def tables(variant, batch, seq, head, dtype, seed=7):
    columns = max(2, head // 4 * 2) if is_partial(variant) else head
    if COS_PER_PAIR in variant:
        columns //= 2
    cos, sin = values((batch, seq, columns), dtype, seed), values((batch, seq, columns), dtype, 8)
    if GIVEN in variant:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return cos, sin


def arguments_of(variant, q, k, cos, sin, dim=1):
    return [q, *([] if ONE in variant else [k]), cos, sin, *([] if GIVEN in variant else [dim])]


def heads_first(batch, heads, seq, head, dtype, seed, transposed=False):
    """[batch, heads, seq, head]; transposed: as a projection's view has it."""
    if transposed:
        return values((batch, seq, heads, head), dtype, seed).transpose(1, 2)
    return values((batch, heads, seq, head), dtype, seed)


# ------------------------------------------------------------------ rope
@pytest.mark.parametrize("variant", ROPE)
@pytest.mark.parametrize("x_dtype, cos_dtype", DTYPES)
def test_dtypes(variant, x_dtype, cos_dtype):
    for head, transposed in ((HEAD, True), (64, False), (6, True)) if GENERIC else ((HEAD, True),):
        q = heads_first(2, 3, 5, head, x_dtype, 1, transposed)
        k = heads_first(2, 1, 5, head, x_dtype, 2, transposed)
        cos, sin = tables(variant, 2, 5, head, cos_dtype)
        check("rope", variant, *arguments_of(variant, q, k, cos, sin))


@pytest.mark.parametrize("variant", LAYOUTS)
@pytest.mark.parametrize("head", HEADS)
def test_head_sizes(variant, head):
    for transposed in (False, True):
        q = heads_first(1, 2, 3, head, F32, 1, transposed)
        k = heads_first(1, 1, 3, head, F32, 2, transposed)
        cos, sin = tables(variant, 1, 3, head, F32)
        if head == 2 and (COS_PER_PAIR in variant or variant.startswith(("pairs_to", "regrouped"))):
            # columns of width 1: torch.cat takes them for channels-last, view makes up a stride
            q, k = q.contiguous(), k.contiguous()
        check("rope", variant, *arguments_of(variant, q, k, cos, sin))


@pytest.mark.parametrize("variant", ROPE)
@pytest.mark.parametrize("batch, seq", [(1, 0), (3, 0), (1, 1), (3, 1), (1, 7), (3, 7), (1, 128)])
def test_shapes(variant, batch, seq):
    for transposed, cos_batch, heads in itertools.product((False, True), {1, batch}, (1, 4)):
        q = heads_first(batch, heads, seq, HEAD, F32, 1, transposed)
        k = heads_first(batch, 2, seq, HEAD, F32, 2, transposed)
        arguments = arguments_of(variant, q, k, *tables(variant, cos_batch, seq, HEAD, F32))
        if "view" in variant and seq == 0:  # torch cannot tell what its -1 is
            with pytest.raises(RuntimeError):
                run("rope", variant, *arguments)
        else:
            check("rope", variant, *arguments)


@pytest.mark.parametrize("variant", [v for v in ROPE if GIVEN not in v])
@pytest.mark.parametrize("dim", [1, 2, -2, -3])
def test_unsqueeze_dim(variant, dim):
    seq_first = dim in (2, -2)  # [batch, seq, heads, head]
    shape = (2, 5, 3, HEAD) if seq_first else (2, 3, 5, HEAD)
    q, k = values(shape, BF16, 1), values(shape, BF16, 2)
    cos, sin = tables(variant, 2, 5, HEAD, BF16)
    check("rope", variant, *arguments_of(variant, q, k, cos, sin, dim))


@pytest.mark.parametrize("variant", ROPE)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_views(variant, dtype):
    """Slices of a packed projection, every other row, every other column, repeated rows."""
    packed = values((2, 6, 3, 2, 3, HEAD), dtype, 1)
    cos, sin = tables(variant, 2, 6, HEAD, dtype)
    for view in (
        packed[..., 0, 1, :].transpose(1, 2),
        packed[:, :, 0, :, 0].transpose(1, 2),
        packed[:, :, :, 0, 0].permute(0, 2, 1, 3),
        values((2, 3, 12, HEAD), dtype, 2)[:, :, ::2],
        values((2, 3, 6, 2 * HEAD), dtype, 3)[..., ::2],
        values((3, 2, 6, HEAD), dtype, 4).transpose(0, 1),
        values((6, 3, 2, HEAD), dtype, 5).permute(2, 1, 0, 3),
        values((1, 6, 2, HEAD), dtype, 6).transpose(1, 2).expand(2, 2, 6, HEAD),
        values((2, 1, 6, HEAD), dtype, 6).expand(2, 2, 6, HEAD),
    ):
        if view.stride(-1) != 1 and variant == "regrouped_both":
            continue  # copied for the kernel, while torch's view keeps the gaps
        check("rope", variant, *arguments_of(variant, view, view, cos, sin))


@pytest.mark.parametrize("variant", [v for v in ROPE if not is_partial(v)])
def test_tables_with_more_rows(variant):
    """cos and sin decide the result's batch where x has one; torch.cat of the rest refuses that."""
    q, k = values((1, 4, 5, HEAD), F32, 1), values((1, 2, 5, HEAD), F32, 2)
    cos, sin = tables(variant, 3, 5, HEAD, F32)
    check("rope", variant, *arguments_of(variant, q, k, cos, sin))


@pytest.mark.parametrize("variant", ROPE)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_special_values(variant, dtype):
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3e38, -3e38])
    special = torch.cat([special, torch.tensor([1e-45, -1e-39, 1.17549435e-38, 1.0, -2.5])])
    pick = torch.Generator().manual_seed(3)

    def draw(*shape):
        return special[torch.randint(len(special), shape, generator=pick)].to(dtype)

    q, k = draw(2, 3, 40, HEAD), draw(2, 1, 40, HEAD)
    cos, sin = tables(variant, 2, 40, HEAD, dtype)
    check("rope", variant, *arguments_of(variant, q, k, cos, sin))
    cos, sin = draw(*cos.shape), draw(*sin.shape)
    check("rope", variant, *arguments_of(variant, q, k, cos, sin))


@pytest.mark.parametrize("variant", ROPE if GENERIC else ["half_both", "half_both_float32_as_q"])
def test_mixed_dtypes(variant):
    """q unlike k, cos unlike sin."""
    cos, sin = tables(variant, 1, 3, HEAD, F32)
    every = list(itertools.product((F32, BF16), repeat=4))
    for q, k, c, s in every if GENERIC else every[1::4]:
        x, y = values((1, 2, 3, HEAD), q, 1), values((1, 1, 3, HEAD), k, 2)
        check("rope", variant, *arguments_of(variant, x, y, cos.to(c), sin.to(s)))


def test_other_ranks():
    """Three dimensions, as vision models have, and more."""
    for shape, cos_shape, dim in (
        ((5, 3, 16), (5, 16), 1),
        ((3, 5, 16), (5, 16), 0),
        ((2, 2, 3, 5, 16), (2, 5, 16), 1),
        ((5, 16), (5, 16), 0),
    ):
        q, k = values(shape, BF16, 1), values(shape, BF16, 2)
        cos, sin = values(cos_shape, F32, 3), values(cos_shape, F32, 4)
        check("rope", "half_both", q, k, cos, sin, dim)
    x = values((5, 3, 16), F32, 1)
    for shape in ((16,), (5, 1, 16), (5, 3, 16), (1,), (5, 1, 1), (5, 3, 1)):
        cos, sin = values(shape, F32, 3), values(shape, F32, 4)
        check("rope", "half_one_given", x, cos, sin)


@pytest.mark.parametrize(
    "variant, q, cos",
    [
        ("half_both", (1, 2, 3, 16), (1, 3, 8)),
        ("half_both", (1, 2, 3, 16), (1, 4, 16)),
        ("half_both", (2, 2, 3, 16), (3, 3, 16)),
        ("half_both_partial", (1, 2, 3, 16), (1, 3, 18)),
        ("half_both_partial", (1, 2, 3, 16), (2, 3, 8)),
        ("pairs_both", (1, 2, 3, 7), (1, 3, 7)),
        ("pairs_both_repeat", (1, 2, 3, 16), (1, 3, 8)),
        ("half_width_both", (1, 2, 3, 16), (1, 3, 16)),
        ("pairs_to_half_both", (1, 2, 3, 16), (1, 3, 8)),
        ("regrouped_both", (2, 3, 16), (1, 3, 16)),
        ("half_both_back", (1, 2, 3, 16), (1, 3, 8)),
        ("pairs_one_given_4d", (2, 3, 16), (3, 16)),
        ("pairs_both_given_view", (1, 2, 3, 7), (1, 3, 7)),
        ("pairs_both_given_view_float32", (1, 2, 0, 16), (1, 1, 16)),
        ("pairs_width_one_given", (1, 2, 3, 16), (3, 16)),
        ("pairs_to_half_width_one_given", (1, 2, 3, 16), (3, 16)),
        ("pairs_one_trailing_width", (1, 2, 3, 16), (1, 3, 9)),
        ("pairs_one_trailing_width", (1, 2, 3, 16), (1, 3, 0)),
    ],
)
def test_refused(variant, q, cos):
    """What torch raises on is an error here too."""
    x, table = torch.ones(q), torch.ones(cos)
    arguments = arguments_of(variant, x, x, table, table)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        kernels.reference(OPS["rope"], variant)(*arguments)
    with pytest.raises(RuntimeError):
        run("rope", variant, *arguments)


@pytest.mark.parametrize("variant", ["half_both", "half_both_partial", "chunks_both_given"])
def test_odd_widths_have_no_kernel(variant):
    """Halves of odd widths depend on how they are cut: the reference runs."""
    x, table = (
        values((1, 2, 3, 9), F32, 1),
        values((1, 3, 7 if "partial" in variant else 9), F32, 2),
    )
    arguments = arguments_of(variant, x, x, table, table)
    kernels.reference(OPS["rope"], variant)(*arguments)
    with pytest.raises(RuntimeError):
        run("rope", variant, *arguments)


def test_threads():
    """Rows are shared out at any place: between q and k, in the middle of a position's heads."""
    q = heads_first(2, 7, 301, HEAD, F32, 1, transposed=True)
    k = heads_first(2, 3, 301, HEAD, F32, 2, transposed=True)
    cos, sin = tables("half_both", 2, 301, HEAD, F32)
    norm = norm_arguments("norm_transpose_rope", NORMS[0], (2, 301, 7, HEAD), (F32, F32, F32))
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        try:
            check("rope", "half_both", q, k, cos, sin, 1)
            check("qk_norm_rope", "norm_transpose_rope", *norm)
        finally:
            torch.set_num_threads(1)


def test_same_bits_every_time():
    q, k = values((2, 4, 9, HEAD), BF16, 1), values((2, 2, 9, HEAD), BF16, 2)
    cos, sin = tables("half_both", 2, 9, HEAD, F32)
    first = run("rope", "half_both", q, k, cos, sin, 1)
    for _ in range(100):
        again = run("rope", "half_both", q, k, cos, sin, 1)
        assert all(torch.equal(a, b) for a, b in zip(first, again))


# ------------------------------------------------------------------ qk_norm_rope
def norm_arguments(variant, norm, shape, dtypes, make=exact, kv_heads=2, weight_seed=5):
    """The torch op's arguments for q of `shape` [batch, seq, heads, head]."""
    number, reference = norm
    x_dtype, cos_dtype, w_dtype = dtypes
    batch, seq, _, head = shape
    q, k = make(shape, x_dtype, 1), make((batch, seq, kv_heads, head), x_dtype, 2)
    cos, sin = tables(variant, batch, seq, head, cos_dtype)
    weights = [values((head,), w_dtype, weight_seed + i) for i in range(2)]
    if reference.name in NO_WEIGHT:
        weights = [None, None]
    dim = 1 if variant == "norm_transpose_rope" else 2
    return [q, k, weights[0], 1e-6, number, weights[1], 2e-5, number, cos, sin, dim]


@pytest.mark.parametrize(
    "variant, norm",
    [
        pytest.param(variant, norm, id=f"{variant}-{norm[1].name}")
        for variant in NORM_ROPE
        for norm in (NORMS if GENERIC or variant == NORM_ROPE[0] else NORMS[:1])
    ],
)
def test_norms_and_dtypes(variant, norm):
    few = [(F32, F32, F32), (BF16, BF16, BF16), (BF16, F32, F32)]
    for dtypes in itertools.product((F32, BF16), repeat=3) if GENERIC else few:
        for head in (16, HEAD) if GENERIC else (HEAD,):
            check("qk_norm_rope", variant, *norm_arguments(variant, norm, (2, 3, 4, head), dtypes))


@pytest.mark.parametrize("variant", NORM_ROPE)
@pytest.mark.parametrize("head", sorted({1, 2, *HEADS, *ODD}))
def test_norm_head_sizes(variant, head):
    for dtype in (F32, BF16):
        dtypes = (dtype, F32, dtype)
        check("qk_norm_rope", variant, *norm_arguments(variant, NORMS[0], (1, 3, 4, head), dtypes))


@pytest.mark.parametrize("variant", NORM_ROPE)
@pytest.mark.parametrize("batch, seq", [(1, 0), (3, 0), (1, 1), (3, 1), (1, 7), (3, 7), (1, 128)])
def test_norm_shapes(variant, batch, seq):
    for heads, kv_heads in ((4, 2), (1, 1), (8, 1)):
        arguments = norm_arguments(
            variant, NORMS[0], (batch, seq, heads, HEAD), (F32, F32, F32), kv_heads=kv_heads
        )
        check("qk_norm_rope", variant, *arguments)
        arguments[8:10] = [t[:1] for t in arguments[8:10]]  # one batch of cos and sin for all
        check("qk_norm_rope", variant, *arguments)


@pytest.mark.parametrize("variant", NORM_ROPE)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_norm_views(variant, dtype):
    arguments = norm_arguments(variant, NORMS[0], (2, 6, 2, HEAD), (dtype, dtype, dtype))
    packed = exact((2, 6, 3, 2, 3, HEAD), dtype, 1)
    for view in (
        packed[..., 0, 1, :],
        packed[:, :, 0, :, 0],
        exact((2, 2, 6, HEAD), dtype, 2).transpose(1, 2),
        exact((2, 12, 2, HEAD), dtype, 2)[:, ::2],
        exact((2, 6, 2, 2 * HEAD), dtype, 3)[..., ::2],
        exact((1, 6, 2, HEAD), dtype, 6).expand(2, 6, 2, HEAD),
        exact((2, 6, 1, HEAD), dtype, 6).expand(2, 6, 2, HEAD),
    ):
        arguments[:2] = [view, view]
        check("qk_norm_rope", variant, *arguments)


@pytest.mark.parametrize("variant", NORM_ROPE)
@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm[1].name)
def test_norm_random_values(variant, norm):
    """Sums of squares in another order than torch's: the root moves by an ulp or two."""
    arguments = norm_arguments(variant, norm, (2, 9, 4, HEAD), (F32, F32, F32), make=values)
    check("qk_norm_rope", variant, *arguments, bits=False, tolerance=1e-6)


@pytest.mark.parametrize("variant", NORM_ROPE)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_norm_special_values(variant, dtype):
    arguments = norm_arguments(variant, NORMS[0], (1, 8, 1, HEAD), (dtype, dtype, dtype))
    q = arguments[0]
    q[0, 0, 0, 3] = float("nan")
    q[0, 1, 0, 4] = float("inf")
    q[0, 2, 0, 5] = -float("inf")
    q[0, 3] = 0
    q[0, 4] = 2.0**100  # the sum of squares overflows
    q[0, 5] = 2.0**-100  # and underflows
    q[0, 6, 0] = 0
    q[0, 6, 0, 15] = -1
    check("qk_norm_rope", variant, *arguments)


@pytest.mark.parametrize("variant", NORM_ROPE)
def test_norm_mixed_dtypes(variant):
    """q unlike k in x and in weight."""
    base = norm_arguments(variant, NORMS[0], (1, 3, 4, HEAD), (F32, F32, F32))
    every = list(itertools.product((F32, BF16), repeat=6))
    for q, k, wq, wk, c, s in every if GENERIC else every[5::13]:
        a = list(base)
        for i, dtype in ((0, q), (1, k), (2, wq), (5, wk), (8, c), (9, s)):
            a[i] = a[i].to(dtype)
        check("qk_norm_rope", variant, *a)


@pytest.mark.parametrize("variant", NORM_ROPE)
@pytest.mark.parametrize("place, shape", [(8, (1, 3, 8)), (8, (1, 4, 16)), (2, (8,)), (5, (17,))])
def test_norm_refused(variant, place, shape):
    arguments = norm_arguments(variant, NORMS[0], (1, 3, 4, 16), (F32, F32, F32))
    arguments[place] = torch.ones(shape)
    with pytest.raises(RuntimeError):
        kernels.reference(OPS["qk_norm_rope"], variant)(*arguments)
    with pytest.raises(RuntimeError):
        run("qk_norm_rope", variant, *arguments)


def test_norm_same_bits_every_time():
    arguments = norm_arguments(
        "norm_transpose_rope", NORMS[0], (2, 9, 4, HEAD), (BF16, F32, BF16), make=values
    )
    first = run("qk_norm_rope", "norm_transpose_rope", *arguments)
    for _ in range(100):
        again = run("qk_norm_rope", "norm_transpose_rope", *arguments)
        assert all(torch.equal(a, b) for a, b in zip(first, again))
