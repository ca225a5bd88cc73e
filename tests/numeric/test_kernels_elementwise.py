"""The kernels of rms_norm, add_rms_norm, add_layer_norm, l2_norm and act_mul against the reference functions of their rules.

Norms get values whose sums of squares are exact in any order, so they must agree to the bit; one
test more takes others and holds the sum itself against float64. Activations are held to the bit in
bfloat16, every value of it, where torch is right itself, and against float64 in float32.
"""

import itertools

import harness
import modes
import pytest
import torch
from tfrewrite import activations, kernels, rules

pytestmark = pytest.mark.kernels
OPS = rules.load()
F32, BF16 = torch.float32, torch.bfloat16
INF, NAN = float("inf"), float("nan")
PAIRS = list(itertools.product((F32, BF16), repeat=2))
NORMS = [(i, v) for i, v in enumerate(OPS["rms_norm"].variants) if v.kernel is not None]
NORM_IDS = [v.name for _, v in NORMS]
ACTS = list(enumerate(activations.ACTS))
PACKED = ["packed_gate_first", "packed_up_first", "packed_interleaved"]
FUNCTIONS = {
    "gelu_tanh_function": "GELU_TANH",
    "squared_relu_function": "RELU2",
    "sigmoid_function": "SIGMOID",
}
# Of act_mul, those that are more than act(gate) * up.
FORMS = [v for v in OPS["act_mul"].variants if "FORM=PLAIN" not in v.kernel]

# A norm is compiled for one width and set of dtypes at a time. The loops are the same ones in the
# generic build, where more of them cost nothing.
GENERIC = modes.kernel_path() == "generic"
WIDTHS = [1, 7, 8, 9, 16, 31, 127, 128, 1000, 2049] if GENERIC else [41]


def both(op, variant, *arguments):
    """What the kernel and the reference give, as tuples; the kernel must have run."""
    kernels.install(OPS)
    kernel = kernels.get(op, variant)
    assert kernel is not None, f"{op}.{variant} is not registered"
    got = kernel(*arguments)
    assert kernels.last_path() == modes.kernel_path()
    want = kernels.reference(OPS[op], variant)(*arguments)
    return [r if isinstance(r, tuple) else (r,) for r in (got, want)]


def assert_same_kind(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.stride() == want.stride(), f"of {tuple(got.shape)}"
    assert torch.equal(got.isnan(), want.isnan())


def differ(got, want):
    """Where the bits are others; a NaN may have any."""
    kind = torch.int32 if want.dtype == F32 else torch.int16
    unlike = got.contiguous().view(kind) != want.contiguous().view(kind)
    return unlike & ~(got.isnan() & want.isnan())


def assert_bits(got, want):
    assert_same_kind(got, want)
    off = int(differ(got, want).sum())
    assert not off, f"{off} of {want.numel()} elements differ"


def ulps(got, want):
    """How many bfloat16 values lie between the two."""
    return (harness.ordered_bits(got) - harness.ordered_bits(want)).abs()


def values(shape, dtype, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def exact(shape, dtype, seed):
    """Small multiples of a power of 2: their squares have the same f32 sum in every order."""
    generator = torch.Generator().manual_seed(seed)
    most = 32 if shape[-1] <= 4096 else 2
    return (torch.randint(-most, most + 1, shape, generator=generator) / 8).to(dtype)


def norm_arguments(variant, x, weight, eps=1e-6):
    return (x, weight, eps) if "weight" in variant.parameters else (x, eps)


# ------------------------------------------------------------------ rms_norm
@pytest.mark.parametrize("x_dtype, weight_dtype", PAIRS)
@pytest.mark.parametrize("number, variant", NORMS, ids=NORM_IDS)
def test_norm_widths(number, variant, x_dtype, weight_dtype):
    for width in WIDTHS:
        x, weight = exact((5, width), x_dtype, 1), values((width,), weight_dtype, 2)
        (got,), (want,) = both("rms_norm", variant.name, *norm_arguments(variant, x, weight))
        assert_bits(got, want)


@pytest.mark.parametrize("x_dtype, weight_dtype", PAIRS)
@pytest.mark.parametrize("number, variant", NORMS, ids=NORM_IDS)
def test_add_norm_widths(number, variant, x_dtype, weight_dtype):
    residuals = (F32, BF16) if GENERIC or number == 0 else (weight_dtype,)
    for width, residual_dtype in itertools.product(WIDTHS, residuals):
        x, residual = exact((5, width), x_dtype, 1), exact((5, width), residual_dtype, 3)
        weight = values((width,), weight_dtype, 2) if "weight" in variant.parameters else None
        arguments = (x, residual, weight, 1e-6, number)
        got, want = both("add_rms_norm", "add_then_norm", *arguments)
        for a, b in zip(got, want, strict=True):
            assert_bits(a, b)


def arrangements(width, dtype, make=exact):
    """Rows that lie in memory in every way that leaves the last dimension the innermost."""
    yield make((0, width), dtype, 1)  # no rows
    yield make((4, 0, width), dtype, 1)  # no rows, 3-D
    yield make((width,), dtype, 1)  # one dimension
    yield make((1, 1, width), dtype, 1)  # one row
    yield make((2, 3, 5, width), dtype, 1)  # 4-D
    yield make((2, 3, 5, width), dtype, 1).transpose(1, 2)  # transposed heads
    yield make((10, width), dtype, 1)[::2]  # every other row
    yield make((6, width + 3), dtype, 1)[:, 2 : width + 2]  # part of the columns
    yield make((1, 3, width), dtype, 1).expand(4, 3, width)  # repeated rows
    yield make((5, 3, width), dtype, 1).permute(1, 0, 2)  # batch last
    yield make((4, 3, width), dtype, 1)[1:2, :, :]  # size 1 with a strange stride
    yield make((6, 2 * width), dtype, 1)[:, ::2]  # columns apart


@pytest.mark.parametrize("dtype", (F32, BF16))
def test_norm_arrangements(dtype):
    width = 128
    weight = values((width,), dtype, 2)
    for x in arrangements(width, dtype):
        (got,), (want,) = both("rms_norm", "cast_then_weight", x, weight, 1e-5)
        assert_bits(got, want)
        for residual in arrangements(width, dtype):
            if residual.shape == x.shape:
                arguments = (x, residual, weight, 1e-5, 0)
                for a, b in zip(*both("add_rms_norm", "add_then_norm", *arguments), strict=True):
                    assert_bits(a, b)


@pytest.mark.parametrize("dtype", (F32, BF16))
@pytest.mark.parametrize("op", ("rms_norm", "add_rms_norm"))
def test_norm_special_rows(op, dtype):
    rows = torch.zeros(12, 128)
    rows[1, 3] = NAN
    rows[2, 5] = INF
    rows[3, 5], rows[3, 100] = -INF, INF
    rows[4] = 3e38  # the squares overflow
    rows[5] = 1e-30  # and underflow
    rows[6] = torch.arange(128) * 2.0**-140  # denormals
    rows[7] = torch.tensor([-0.0, 0.0]).repeat(64)
    rows[8:] = 1.0
    rows[9, 127] = NAN
    rows = rows.to(dtype)
    for weight_at_0, eps in itertools.product((1.0, 0.0, INF, NAN), (1e-6, 0.0)):
        weight = torch.ones(128, dtype=dtype)
        weight[0] = weight_at_0
        for number, variant in NORMS if GENERIC else NORMS[:3]:
            if op == "rms_norm":
                arguments, name = norm_arguments(variant, rows, weight, eps), variant.name
            else:
                given = weight if "weight" in variant.parameters else None
                arguments = (rows, torch.zeros_like(rows), given, eps, number)
                name = "add_then_norm"
            for got, want in zip(*both(op, name, *arguments), strict=True):
                assert_bits(got, want)


@pytest.mark.parametrize("dtype", (F32, BF16))
def test_huge_norm(dtype):
    width = 262144
    x, weight = exact((2, width), dtype, 1), values((width,), dtype, 2)
    (got,), (want,) = both("rms_norm", "weight_then_cast", x, weight, 1e-6)
    assert_bits(got, want)
    arguments = (x, torch.zeros_like(x), weight, 1e-6, 0)
    for a, b in zip(*both("add_rms_norm", "add_then_norm", *arguments), strict=True):
        assert_bits(a, b)


@pytest.mark.parametrize("width", [128, 262144])
def test_norm_of_any_values(width, figures):
    """The sum keeps within 3e-7 of the exact one however long the row, and torch's within 1e-6."""
    x, ones = values((9 if width < 1000 else 3, width), F32, 1, 3.0), torch.ones(width)
    right = x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-6)
    residual = torch.zeros_like(x)
    results = [
        both("rms_norm", "cast_then_weight", x, ones, 1e-6),
        both("add_rms_norm", "add_then_norm", x, residual, ones, 1e-6, 0),
    ]
    for got, want in results:
        assert_same_kind(got[0], want[0])
        assert figures("norm, f32", float(((got[0] - right) / right).abs().max())) < 3e-7
        assert float(((got[0] - want[0]) / right).abs().max()) < 1e-6
    for x_dtype, weight_dtype in PAIRS[1:]:
        x = values((200 if width < 1000 else 3, width), x_dtype, 4)
        weight = values((width,), weight_dtype, 5)
        for _, variant in NORMS if GENERIC and width < 1000 else NORMS[:2]:
            (got,), (want,) = both("rms_norm", variant.name, *norm_arguments(variant, x, weight))
            off = ulps(got, want) if want.dtype == BF16 else (got - want).abs() > 1e-6 * want.abs()
            assert_same_kind(got, want)
            assert figures("norm, bf16 share off", float((off > 0).float().mean())) <= 1e-3
            assert int(off.max()) <= (2 if variant.name.startswith("cast") else 1)


def test_norm_refuses():
    kernels.install(OPS)
    norm, add = torch.ops.tfr.rms_norm.cast_then_weight, torch.ops.tfr.add_rms_norm.add_then_norm
    x = values((3, 8), F32, 1)
    for arguments in ((x, values((7,), F32, 1), 1e-6), (x, values((1, 8), F32, 1), 1e-6)):
        with pytest.raises(RuntimeError, match="weight"):
            norm(*arguments)
    with pytest.raises(RuntimeError, match="shape"):
        add(x, values((1, 8), F32, 1), torch.ones(8), 1e-6, 0)
    with pytest.raises(RuntimeError, match="weight"):
        add(x, x, None, 1e-6, 0)


# ------------------------------------------------------------------ add_layer_norm
def layer_norms(x, residual, affine=2, eps=1e-5):
    """Both references on the same arguments: (got, want) of the norm and of the sum."""
    width, dtype = x.shape[-1], torch.promote_types(x.dtype, residual.dtype)
    given = [values((width,), dtype, 7 + i) for i in range(affine)]
    arguments = (x, residual, *given, *[None] * (2 - affine), eps, width)
    (norm, s), want = both("add_layer_norm", "add_then_norm", *arguments)
    (alone,), _ = both("add_layer_norm", "norm_of_sum", *arguments)
    assert_bits(s, want[1])
    assert_bits(alone, norm)
    assert_same_kind(norm, want[0])
    return norm, want[0], arguments


def right_layer_norm(arguments):
    x, residual, weight, bias, eps, width = arguments
    s = (residual + x).double()
    weight, bias = (None if t is None else t.double() for t in (weight, bias))
    return torch.nn.functional.layer_norm(s, (width,), weight, bias, eps)


@pytest.mark.parametrize("x_dtype, residual_dtype", PAIRS)
def test_layer_norm_widths(x_dtype, residual_dtype, figures):
    """float32: no worse than torch; bfloat16: its bits, but for one in a thousand."""
    ratios, off, elements = [], 0, 0
    for width, affine in itertools.product(WIDTHS, range(3)):
        x, residual = values((64, width), x_dtype, width), values((64, width), residual_dtype, 3)
        got, want, arguments = layer_norms(x, residual + 0.5, affine)
        if want.dtype == BF16:
            off += int((ulps(got, want) > 0).sum())
            elements += want.numel()
        elif width > 8:
            right = right_layer_norm(arguments)
            mine, theirs = (harness.rms(t.double() - right) for t in (got, want))
            ratios.append(harness.error_ratio(theirs, mine))
    assert off <= max(2, harness.MAX_ULP_SHARE * elements)
    if ratios:
        assert figures("layer norm, f32 error", harness.geometric_mean(ratios)) <= 1.05


@pytest.mark.parametrize("dtype", (F32, BF16))
def test_layer_norm_arrangements(dtype):
    width = 128
    for x in arrangements(width, dtype, values):
        for residual in arrangements(width, dtype, values):
            if residual.shape == x.shape:
                close_layer_norm(*layer_norms(x, residual))
    x = values((2, 3, 5, width), dtype, 1)
    for shape in ((1, 3, 5, width), (2, 1, 1, width), (5, width), (width,)):  # one repeats
        close_layer_norm(*layer_norms(x, values(shape, dtype, 2)))
        close_layer_norm(*layer_norms(values(shape, dtype, 2), x))
    close_layer_norm(*layer_norms(x[:1], x[:, :1]))


def close_layer_norm(got, want, _arguments):
    relative = 2.0**-7 if want.dtype == BF16 else 1e-6
    assert torch.allclose(got.float(), want.float(), rtol=relative, atol=2e-6)


@pytest.mark.parametrize("dtype", (F32, BF16))
def test_layer_norm_special_rows(dtype):
    rows = torch.zeros(9, 128)
    rows[1, 3], rows[2, 5] = NAN, INF
    rows[3, 5], rows[3, 100] = -INF, INF
    rows[4] = torch.tensor([-1e18, 1e18]).repeat(64)
    rows[5] = torch.arange(128) * 2.0**-140  # denormals
    rows[6] = torch.tensor([-0.0, 0.0]).repeat(64)
    rows[7:] = 1.0
    rows[8, 127] = NAN
    rows = rows.to(dtype)
    for weight_at_0 in (1.0, 0.0, INF, NAN):
        weight, bias = torch.ones(128, dtype=dtype), values((128,), dtype, 2)
        weight[0] = weight_at_0
        arguments = (rows, torch.zeros_like(rows), weight, bias, 1e-5, 128)
        (got,), (want,) = both("add_layer_norm", "norm_of_sum", *arguments)
        assert_same_kind(got, want)
        finite = want.isfinite()
        assert torch.equal(got[~finite].nan_to_num(7), want[~finite].nan_to_num(7))
        assert torch.allclose(got[finite].float(), want[finite].float(), atol=1e-6)
    large = torch.full((2, 128), 3e38, dtype=dtype)
    got = kernels.get("add_layer_norm", "norm_of_sum")(large, large * 0, None, None, 1e-5, 128)
    assert torch.equal(got, large * 0)  # no total overflows; torch's moments do


@pytest.mark.parametrize("dtype", (F32, BF16))
def test_layer_norm_of_a_large_mean(dtype):
    """The squares are those of what has the mean taken off."""
    for width in (128, 4096, 262144):
        x = (values((3, width), F32, 1) + 100).to(dtype)
        got, want, arguments = layer_norms(x, torch.zeros_like(x), 0)
        right = right_layer_norm(arguments)
        error = (got.double() - right).abs().max()
        assert error < (1e-4 if dtype == F32 else 2.0**-6)


def test_layer_norm_refuses():
    """Another last dimension, a repeated last one, weights of another dtype: torch's own runs."""
    kernel = kernels.get("add_layer_norm", "add_then_norm")
    x, weight = values((3, 8), F32, 1), values((8,), F32, 2)
    for given in (
        (x, x[:, :1].contiguous(), weight, None, 1e-5, 8),
        (x, values((2, 8), F32, 3), weight, None, 1e-5, 8),
        (x, x, None, None, 1e-5, 4),
        (x, x, values((4,), F32, 2), None, 1e-5, 8),
        (x.bfloat16(), x.bfloat16(), weight, None, 1e-5, 8),
        (x, x, weight, values((8,), BF16, 2), 1e-5, 8),
    ):
        with pytest.raises(RuntimeError, match="tfr::add_layer_norm"):
            kernel(*given)


# ------------------------------------------------------------------ gated_rms_norm
GATED = [v for v in OPS["gated_rms_norm"].variants if v.kernel is not None]


def gated_arguments(variant, x, gate, act, weight, groups=1, norm_first=1):
    numbers = {"size": (x.shape[-1] // groups,), "groups": (groups, norm_first)}
    rest = next((n for name, n in numbers.items() if name in variant.parameters), ())
    return (x, gate, act, weight, 1e-6, *rest)


def assert_gated(variant, *arguments):
    """Like its reference but for exp, whose last bit a 16-bit result shows rarely."""
    (got,), (want,) = both("gated_rms_norm", variant.name, *arguments)
    assert_same_kind(got, want)
    infinite = ~want.isfinite()
    assert torch.equal(got[infinite].nan_to_num(), want[infinite].nan_to_num())
    got, want = got[~infinite], want[~infinite]
    error, exact_to = (got.double() - want.double()).abs(), 2e-6 * want.double().abs() + 1e-30
    rounded = any(a.dtype == BF16 for a in arguments if isinstance(a, torch.Tensor))
    far = error > exact_to if want.dtype == F32 else ulps(got, want) > 0
    assert int(far.sum()) <= (max(2, 2e-3 * want.numel()) if rounded else 0)
    assert bool(
        (error <= exact_to + (2.01 * 2.0**-7 * want.double().abs() if rounded else 0)).all()
    )


@pytest.mark.parametrize("variant", GATED, ids=[v.name for v in GATED])
def test_gated_norm_dtypes(variant):
    for n, (x_dtype, gate_dtype, weight_dtype) in enumerate(
        itertools.product((F32, BF16), repeat=3)
    ):
        for width, groups in ((40, 5), (41, 1)) if not GENERIC else ((1, 1), (48, 6), (1000, 8)):
            x, gate = values((2, 6, width), x_dtype, 1), values((2, 6, width), gate_dtype, 3)
            weight = values((width,), weight_dtype, 2)
            for act in ("SILU", "SIGMOID") if n < 2 else ("SILU",):
                number = activations.ACTS.index(act)
                given = gated_arguments(variant, x, gate, number, weight, groups, n % 2)
                assert_gated(variant, *given)


@pytest.mark.parametrize("variant", GATED, ids=[v.name for v in GATED])
@pytest.mark.parametrize("dtype", (F32, BF16))
def test_gated_norm_arrangements(variant, dtype):
    width = 128
    weight = values((width,), dtype, 2)
    for groups in (1, 4):
        for x, gate in itertools.product(arrangements(width, dtype, values), repeat=2):
            whole = groups == 1 or (x.is_contiguous() and gate.is_contiguous())
            if x.shape != gate.shape or not whole:
                continue
            if variant.name.startswith("groups") and x.dim() not in (2, 3):
                continue
            if "view" in variant.name or not (x.stride(-1) == gate.stride(-1) == 1):
                continue
            if "groups" in variant.name and not x.is_contiguous():
                continue
            assert_gated(variant, *gated_arguments(variant, x, gate, 0, weight, groups))


@pytest.mark.parametrize("variant", GATED, ids=[v.name for v in GATED])
def test_gated_norm_special_rows(variant):
    rows = torch.zeros(7, 64)
    rows[1, 3], rows[2, 5], rows[3, 60] = NAN, INF, -INF
    rows[4] = 3e38  # the squares overflow
    rows[5] = -1e-30
    rows[6] = 1.0
    gate = torch.ones(7, 64)
    gate[:, 7], gate[:, 8], gate[:, 9], gate[6, 10] = -100.0, 100.0, 0.0, NAN
    for dtype, first in itertools.product((F32, BF16), (0, 1)):
        x, g, weight = rows.to(dtype), gate.to(dtype), torch.ones(64, dtype=dtype)
        assert_gated(variant, *gated_arguments(variant, x, g, 0, weight, 2, first))


def test_gated_norm_refuses_what_torch_does_not_take():
    """The reference's own errors then show; nothing is read past an end."""
    x = torch.ones(2, 6, 12)
    sized = "gate_then_norm_of_groups"
    counted = "groups_of_rows_gated_before_or_after"
    for name, given in (
        (sized, (x, x, 0, torch.ones(12), 1e-6, 5)),
        (sized, (x, x, 0, torch.ones(12), 1e-6, 0)),
        (sized, (x, x[..., :6], 0, torch.ones(12), 1e-6, 4)),
        (sized, (x, x, 0, torch.ones(6), 1e-6, 4)),
        (counted, (x[None], x[None], 0, torch.ones(12), 1e-6, 4, 1)),
        (counted, (x, x, 0, torch.ones(12), 1e-6, -3, 1)),
    ):
        kernels.install(OPS)
        with pytest.raises(RuntimeError, match="^tfr::gated_rms_norm"):
            kernels.get("gated_rms_norm", name)(*given)


# ------------------------------------------------------------------ l2_norm
L2 = OPS["l2_norm"].variants
FLOAT32_ALONE = ("by_rsqrt", "by_rsqrt_of_mean")


def l2_arguments(variant, x, eps=1e-6):
    return (x, *({"eps": eps, "dim": -1}[p] for p in variant.parameters[1:]))


def assert_l2(variant, x, eps=1e-6):
    """Like its reference but for the length's last bit, which torch's vector libraries round in
    their own way: that moves a whole row, and of 16-bit ones rarely any.
    """
    (got,), (want,) = both("l2_norm", variant.name, *l2_arguments(variant, x, eps))
    assert_same_kind(got, want)
    odd = ~want.isfinite()
    assert torch.equal(got[odd].nan_to_num(), want[odd].nan_to_num())
    got, want = got[~odd], want[~odd]
    if want.dtype == F32:
        assert bool(((got - want).abs() <= 4e-7 * want.abs() + 1e-38).all())
    else:
        off = ulps(got, want)
        assert int((off > 0).sum()) <= x.shape[-1] and not bool((off > 2).any())


def l2_takes(variant, dtype):
    return variant.name not in FLOAT32_ALONE or dtype == F32


@pytest.mark.parametrize("variant", L2, ids=[v.name for v in L2])
def test_l2_norm(variant):
    for dtype in (F32, BF16):
        if not l2_takes(variant, dtype):
            continue
        for width in WIDTHS:
            assert_l2(variant, exact((5, width), dtype, 1))
        for x in arrangements(41, dtype):
            assert_l2(variant, x)
        assert_l2(variant, values((7, 41), dtype, 2, 1e-4), eps=0.5)
        rows = torch.zeros(7, 41)
        rows[1, 3], rows[2, 5], rows[3, 40] = NAN, INF, -INF
        rows[4] = 3e38  # the squares overflow
        rows[5] = -1e-30
        rows[6] = 1.0
        assert_l2(variant, rows.to(dtype))


def test_l2_norm_rounds_where_its_form_does():
    """The forms differ on these values, so that a kernel of another one would be seen."""
    x = values((50, 41), BF16, 3)
    results = []
    for name in ("by_norm", "by_pow", "by_rsqrt_in_float32"):
        variant = next(v for v in L2 if v.name == name)
        assert_l2(variant, x)
        results.append(both("l2_norm", name, *l2_arguments(variant, x))[1][0])
    for one, other in itertools.combinations(results, 2):
        assert int((one != other).sum()) > 4 * x.shape[-1]


def test_l2_norm_refuses_what_its_rows_are_not():
    kernels.install(OPS)
    x = torch.ones(3, 4)
    for name, given in (
        ("by_sqrt", (x, 1e-6, 0)),
        ("by_rsqrt", (x, 1e-6, -2)),
        ("by_rsqrt", (x.bfloat16(), 1e-6, -1)),
        ("by_rsqrt_of_mean", (x.bfloat16(), 1e-6)),
        ("by_norm", (torch.tensor(2.0),)),
    ):
        with pytest.raises(RuntimeError, match="^tfr::l2_norm"):
            kernels.get("l2_norm", name)(*given)


# ------------------------------------------------------------------ act_mul
def act_arguments(variant, act, gate, up, dim=-1):
    if variant == "two_inputs":
        return (act, gate, up)
    if variant in FUNCTIONS:
        return (gate, up)
    if variant == "packed_interleaved":
        return (act, torch.stack((gate, up), -1).flatten(-2))
    halves = (gate, up) if variant == "packed_gate_first" else (up, gate)
    return (act, torch.cat(halves, -1), dim)


def assert_product(got, want, gate, up, act):
    """`want` is torch's. Where 1 + erf or 1 + tanh cancels, the last bits of that decide: then the
    error counts against the gate."""
    assert_same_kind(got, want)
    finite = want.isfinite()
    assert torch.equal(got[~finite].nan_to_num(7), want[~finite].nan_to_num(7))
    size = (gate.double() * up.double()).abs() if "GELU" in act else want.double().abs()
    error = (got.double() - want.double()).abs()
    if gate.dtype == want.dtype == F32:
        slack = 1e-6 * size + 3e-45
    else:
        slack = 2.0**-22 * size + 1.01 * 2.0**-7 * want.double().abs() + 1e-40
    assert (error[finite] <= slack[finite]).all(), float((error / slack)[finite].max())


@pytest.mark.parametrize("number, act", ACTS, ids=activations.ACTS)
def test_every_bfloat16(number, act):
    """Against torch to the bit. Its gelu is off by itself: its erf has an error of 1e-7."""
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(BF16)
    (got,), (want,) = both("act_mul", "two_inputs", number, x, torch.ones_like(x))
    assert_product(got, want, x, torch.ones_like(x), act)
    off = differ(got, want)
    assert int(off.sum()) <= 64  # of 65536; none but 3 of gelu with torch 2.13 on AVX2
    right = activations.function(number)(x[off].double())
    if act != "NEW_GELU":  # whose roundings in between float64 does not have
        assert ((got[off] - right).abs() <= (want[off] - right).abs() * 1.0001).all()


@pytest.mark.parametrize("number, act", ACTS, ids=activations.ACTS)
def test_float32(number, act, figures):
    """Against float64, and torch: the whole range of exponents, and the one that matters."""
    wide = torch.arange(0, 1 << 32, 65521, dtype=torch.int64).to(torch.int32).view(F32)
    x = torch.cat((wide, values((20000,), F32, 1, 4.0)))
    up = torch.ones_like(x)
    (got,), (want,) = both("act_mul", "two_inputs", number, x, up)
    assert_product(got, want, x, up, act)
    right = activations.function(number)(x.double())
    sure = right.isfinite() & (right.abs() < 3e38) & (right.abs() > 1e-36) & (x.abs() < 1e12)
    size = x.double().abs() if "GELU" in act else right.abs()
    error = float(((got - right).abs() / size)[sure].max())
    assert figures(f"{act} against float64, f32", error) < 6e-7


@pytest.mark.parametrize("gate_dtype, up_dtype", PAIRS)
@pytest.mark.parametrize("number, act", ACTS, ids=activations.ACTS)
def test_act_mul_dtypes(number, act, gate_dtype, up_dtype):
    gate, up = values((3, 1000), gate_dtype, 1, 3.0), values((3, 1000), up_dtype, 2)
    (got,), (want,) = both("act_mul", "two_inputs", number, gate, up)
    assert_product(got, want, gate, up, act)


@pytest.mark.parametrize("dtype", (F32, BF16))
@pytest.mark.parametrize("variant", ["two_inputs", *PACKED, *FUNCTIONS])
def test_act_mul_shapes(variant, dtype):
    act = activations.ACTS.index(FUNCTIONS.get(variant, "SILU"))
    widths = (0, 1, 7, 8, 9, 15, 16, 17, 127, 128, 1000)
    shapes = [(5, w) for w in widths] + [(w,) for w in widths]
    shapes += [(0, 9), (2, 0, 9), (1, 1, 9), (2, 3, 4, 9), (2, 3, 4, 513), (3, 4097), (1, 262144)]
    for shape in shapes:
        gate, up = values(shape, dtype, 1, 3.0), values(shape, dtype, 2)
        arguments = act_arguments(variant, act, gate, up)
        (got,), (want,) = both("act_mul", variant, *arguments)
        assert_product(got, want, gate, up, activations.ACTS[act])
        if variant in PACKED[:2]:
            (again,), _ = both("act_mul", variant, *arguments[:2], len(shape) - 1)
            assert_bits(again, got)


@pytest.mark.parametrize("dtype", (F32, BF16))
def test_act_mul_arrangements(dtype):
    for gate, up in itertools.product(arrangements(24, dtype, values), repeat=2):
        if gate.shape == up.shape:
            for act in ("SILU", "IDENTITY"):
                number = activations.ACTS.index(act)
                (got,), (want,) = both("act_mul", "two_inputs", number, gate, up)
                assert_product(got, want, gate, up, act)
    for packed in arrangements(24, dtype, values):
        for variant in PACKED:
            last = () if variant == "packed_interleaved" else (-1,)
            (got,), (want,) = both("act_mul", variant, 0, packed, *last)
            gate = packed[..., ::2] if not last else packed.chunk(2, -1)[variant == PACKED[1]]
            assert_product(got, want, gate, torch.full_like(gate, 8.0), "SILU")
    halves = values((4, 6, 48), dtype, 1).chunk(2, -1)
    (got,), (want,) = both("act_mul", "two_inputs", 0, *halves)
    assert_product(got, want, *halves, "SILU")


@pytest.mark.parametrize("gate_dtype, up_dtype", PAIRS)
def test_act_mul_broadcasts(gate_dtype, up_dtype):
    """One gate for each row, one row of gates, other ranks; the same of up."""
    pairs = [((5, 1), (5, 24)), ((3, 4, 1), (3, 4, 5000)), ((3, 1, 7), (1, 4, 7)), ((24,), (5, 24))]
    pairs += [
        ((1,), (2, 3)),
        ((5, 1), (1, 9)),
        ((0, 1), (0, 9)),
        ((3, 1), (3, 0)),
        ((1, 1), (1, 1)),
    ]
    for a, b in pairs:
        for one, other in ((a, b), (b, a)):
            gate, up = values(one, gate_dtype, 1, 3.0), values(other, up_dtype, 2)
            for act in ("SIGMOID", "SILU", "NEW_GELU", "IDENTITY"):
                number = activations.ACTS.index(act)
                (got,), (want,) = both("act_mul", "two_inputs", number, gate, up)
                assert_product(got, want, gate, up, act)
    turned = values((4, 3, 6), up_dtype, 1).transpose(0, 1)
    gate = values((3, 4, 1), gate_dtype, 2)
    (got,), (want,) = both("act_mul", "sigmoid_function", gate, turned)
    assert_product(got, want, gate, turned, "SIGMOID")


@pytest.mark.parametrize("dtype", (F32, BF16))
@pytest.mark.parametrize("number, act", ACTS, ids=activations.ACTS)
def test_act_mul_special_values(number, act, dtype):
    special = torch.tensor([0, -0.0, 1, -1, INF, -INF, NAN, 1e-40, -1e-40, 1e30, -1e30, -88, -90])
    gate, up = torch.cartesian_prod(special, special).to(dtype).unbind(-1)
    (got,), (want,) = both("act_mul", "two_inputs", number, gate.contiguous(), up.contiguous())
    assert_product(got, want, gate, up, act)
    if act == "GELU" and dtype == F32:
        return  # torch gives -0 or 0 for -90, by the length of the tensor
    zero = want == 0
    assert torch.equal(got[zero].signbit(), want[zero].signbit())


def form_arguments(variant, gate, up, limit, slope=1.702):
    given = {"act": activations.ACTS.index("SILU"), "gate": gate, "up": up, "dim": -1}
    given |= {"limit": limit, "slope": slope}
    interleaved = "interleaved" in variant.name
    if "gate_up" in variant.kinds:
        both = torch.stack((gate, up), -1).flatten(-2) if interleaved else torch.cat((gate, up), -1)
        given["gate_up"] = both
    return [given[name] for name in variant.kinds]


def assert_form(variant, gate, up, limit):
    arguments = form_arguments(variant, gate, up, limit)
    (got,), (want,) = both("act_mul", variant.name, *arguments)
    if "limit" in variant.kinds:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    assert_product(got, want, gate, up + 1 if "sloped" in variant.name else up, "SILU")
    if want.dtype == BF16:
        assert int(differ(got, want).sum()) <= 1 + want.numel() // 1000


@pytest.mark.parametrize("variant", FORMS, ids=lambda v: v.name)
def test_act_mul_forms(variant):
    pairs = PAIRS if "up" in variant.kinds else [(F32, F32), (BF16, BF16)]
    for gate_dtype, up_dtype in pairs:
        for shape in ((5, 7), (16,), (3, 1000), (0, 9), (2, 3, 4, 513), (3, 4097)):
            gate, up = values(shape, gate_dtype, 1, 3.0), values(shape, up_dtype, 2)
            for limit in (0.7, 7, INF, 0.3, -0.5):
                assert_form(variant, gate, up, limit)
        for gate in arrangements(24, gate_dtype, values):
            assert_form(variant, gate, values(gate.shape, up_dtype, 2), 0.7)


@pytest.mark.parametrize("dtype", (F32, BF16))
@pytest.mark.parametrize("variant", FORMS, ids=lambda v: v.name)
def test_act_mul_forms_of_special_values(variant, dtype):
    special = torch.tensor([0, -0.0, 1, -1, INF, -INF, NAN, 1e-40, -1e-40, 1e30, -1e30, -88, -90])
    gate, up = torch.cartesian_prod(special, special).to(dtype).unbind(-1)
    for limit in (0.7, 1e31, INF):
        assert_form(variant, gate.contiguous(), up.contiguous(), limit)


def test_act_mul_refuses_limits():
    """Where torch raises, or which of two zeros it gives depends on the way it takes."""
    kernels.install(OPS)
    x = values((4, 8), F32, 1)
    for limit in (0.0, NAN, 1e39, -1e39):
        with pytest.raises(RuntimeError, match="limit"):
            torch.ops.tfr.act_mul.two_inputs_clamped(0, x, x, limit)


def test_act_mul_refuses():
    kernels.install(OPS)
    op, x = torch.ops.tfr.act_mul, values((4, 9), F32, 1)
    with pytest.raises(RuntimeError, match="odd"):
        op.packed_interleaved(0, x)
    with pytest.raises(RuntimeError, match="odd"):
        op.packed_gate_first(0, x, -1)
    with pytest.raises(RuntimeError, match="axis"):
        op.packed_gate_first(0, values((4, 8), F32, 1), 0)
    with pytest.raises(RuntimeError, match="shape"):
        op.two_inputs(0, x, x[:3])
    with pytest.raises(RuntimeError, match="shape"):
        op.two_inputs_clamped(0, x, x[:1], 7.0)
    for number in (-1, len(activations.ACTS)):
        with pytest.raises(RuntimeError, match="activation"):
            op.two_inputs(number, x, x)
