"""The kernels of linear and linears against torch and float64.

Two kinds of values. Small integers, whose sums are exact in every order: then a result must be the
float64 one, rounded once, to the bit, and so a bias is added before the rounding. Normal values,
where sums in another order differ: then the error against float64 may not exceed torch's own.
"""

import itertools
import os
import subprocess
import sys

import harness
import modes
import pytest
import torch
import torch.nn.functional as F
from tfrewrite import kernels, rules

pytestmark = pytest.mark.kernels
OPS = rules.load()
F32, BF16 = torch.float32, torch.bfloat16
DTYPES = (F32, BF16)
INF, NAN = float("inf"), float("nan")
MAX_RATIO = 1.05  # DESIGN 3.5; one summation order is as good as another only over many seeds

# A kernel is compiled for one K at a time. The loops are the same ones in the generic build, where
# more of them cost nothing.
GENERIC = modes.kernel_path() == "generic"
WIDTHS = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 300] if GENERIC else [0, 45, 300]

# Around the limits between one row, groups of rows, tiles, and blocks of tiles.
ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 24, 25, 33, 130, 300)
COLUMNS = (1, 2, 5, 15, 16, 17, 47, 48, 49, 131)


@pytest.fixture(autouse=True)
def never_torch():
    """torch runs the float32 products of many rows by default."""
    kernels.install(OPS)
    kernels.library().tfr_torch_force_linear(0)
    yield
    kernels.library().tfr_torch_force_linear(-1)


def run(x, *pairs):
    """The kernel's results for (weight, bias) pairs, as a tuple."""
    op, variant = ("linear", "m1") if len(pairs) == 1 else ("linears", f"m{len(pairs)}")
    got = kernels.get(op, variant)(x, *itertools.chain(*pairs))
    assert kernels.last_path() == modes.kernel_path()
    return got if isinstance(got, tuple) else (got,)


def in_float64(x, weight, bias):
    return F.linear(x.double(), weight.double(), None if bias is None else bias.double())


def values(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def integers(shape, dtype, seed):
    """Their products have sums below 2**24 for K <= 100000."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def modules(columns, width, dtype, biases, seed=10):
    return [
        (
            integers((n, width), dtype, seed + i),
            integers((n,), dtype, seed + 50 + i) if bias else None,
        )
        for i, (n, bias) in enumerate(zip(columns, biases, strict=True))
    ]


def check(x, *pairs):
    """Of integers: exact sums, rounded once."""
    got = run(x, *pairs)
    assert len(got) == len(pairs)
    for y, (weight, bias) in zip(got, pairs, strict=True):
        want = in_float64(x, weight, bias).to(x.dtype)
        assert y.dtype == x.dtype and y.shape == want.shape and y.is_contiguous()
        assert torch.equal(y, want), f"x {tuple(x.shape)}, weight {tuple(weight.shape)}"
    return got


# ------------------------------------------------------------------ sizes
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_sizes(width, dtype):
    for rows, columns in itertools.product(ROWS, COLUMNS):
        if rows * columns * width > 4e6 and not GENERIC:
            continue
        bias = (rows + columns) % 2
        check(integers((rows, width), dtype, 1), *modules([columns], width, dtype, [bias]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ((0, 16), (3, 0, 16), (0,), (2, 3, 0)))
def test_nothing(shape, dtype):
    """No rows; or K = 0, where the result is the bias."""
    for columns in (0, 1, 50):
        for bias in (False, True):
            x = integers(shape, dtype, 1)
            pairs = modules([columns, 3], shape[-1], dtype, [bias, not bias])
            check(x, pairs[0])
            check(x, *pairs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", (1, 2, 4, 16, 70))
def test_long_rows(rows, dtype):
    """K beyond what is held in the caches at a time: blocks of K, and blocks of rows of x."""
    for width in (5000, 20011) if GENERIC else (20011,):
        check(integers((rows, width), dtype, 1), *modules([50], width, dtype, [True]))


def test_many_columns():
    """As those of an output embedding."""
    for rows in (1, 4):
        check(integers((rows, 24), BF16, 1), *modules([50001], 24, BF16, [False]))


# ------------------------------------------------------------------ several modules
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", range(1, 9))
def test_modules(count, dtype):
    """1 to 8 of them, of unlike sizes, some without columns, with biases or not."""
    sizes = (40, 8, 8, 0, 100, 1, 3, 49)[:count]
    width = 45
    for rows, kind in itertools.product((1, 4, 7, 40), ("none", "all", "mixed")):
        biases = [{"none": False, "all": True, "mixed": i % 3 == 0}[kind] for i in range(count)]
        check(integers((rows, width), dtype, 1), *modules(sizes, width, dtype, biases))


@pytest.mark.parametrize("dtype", DTYPES)
def test_modules_as_one_by_one(dtype):
    """Whether modules share a call or a buffer makes no difference, to the bit."""
    width, sizes = 300, (64, 32, 32, 17)
    buffer = values((sum(sizes), width), dtype, 2)
    adjacent = list(torch.split(buffer, sizes))
    apart = [w.clone() for w in adjacent]
    backwards = list(torch.split(torch.cat(apart[::-1]), sizes[::-1]))[::-1]
    bias = values((64,), dtype, 3)
    for rows in (1, 4, 9, 40):
        x = values((rows, width), dtype, rows)
        want = [run(x, (w, bias if i == 0 else None))[0] for i, w in enumerate(apart)]
        for weights in (adjacent, apart, backwards):
            pairs = [(w, bias if i == 0 else None) for i, w in enumerate(weights)]
            for a, b in zip(run(x, *pairs), want, strict=True):
                assert torch.equal(a, b) and a.is_contiguous()


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_weight_twice(dtype):
    weight, bias = modules([30], 45, dtype, [True])[0]
    for rows in (1, 3, 20):
        x = integers((rows, 45), dtype, 1)
        plain, again = check(x, (weight, None), (weight, bias))
        assert plain.data_ptr() != again.data_ptr()


# ------------------------------------------------------------------ where things lie in memory
def arrangements(width, dtype):
    make = integers
    yield make((width,), dtype, 1)  # one dimension
    yield make((1, 1, width), dtype, 1)
    yield make((2, 3, 4, width), dtype, 1)
    yield make((3, 5, width), dtype, 1).transpose(0, 1)  # batch last
    yield make((2, 7, 3, width), dtype, 1).permute(2, 0, 1, 3)
    yield make((20, width), dtype, 1)[::2]  # every other row
    yield make((9, width + 3), dtype, 1)[:, 2 : width + 2]  # part of the columns
    yield make((1, 3, width), dtype, 1).expand(8, 3, width)  # repeated rows
    yield make((6, 2, width), dtype, 1)[:, -1:, :]  # the last token of each
    yield make((6, 2 * width), dtype, 1)[:, ::2]  # columns apart
    yield make((width, 20), dtype, 1).t()


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrangements_of_x(dtype):
    width = 45
    pairs = modules([33, 8], width, dtype, [True, False])
    for x in arrangements(width, dtype):
        check(x, *pairs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrangements_of_weights(dtype):
    width, columns = 45, 50
    spaced = integers((2 * columns, width), dtype, 2)[::2]
    part = integers((columns, width + 7), dtype, 3)[:, 5 : width + 5]
    transposed = integers((width, columns), dtype, 4).t()
    same = integers((1, width), dtype, 5).expand(columns, width)
    bias = integers((2 * columns,), dtype, 6)[::2]
    for rows in (1, 4, 9, 40):
        x = integers((rows, width), dtype, 1)
        check(x, (spaced, None), (part, bias), (transposed, bias.contiguous()), (same, None))
        for weight in (spaced, part, transposed, same):
            check(x, (weight, bias))


@pytest.mark.parametrize("dtype", DTYPES)
def test_reads_nothing_beyond(dtype):
    """What lies around x and the weights in memory has no part in the result, even where it is NaN."""
    width = 45
    for rows, columns in itertools.product((1, 3, 4, 10, 20), (1, 7, 50)):
        x = torch.full((rows + 2, width + 40), NAN, dtype=dtype)
        weight = torch.full((columns + 2, width + 40), NAN, dtype=dtype)
        x[1:-1, 20 : width + 20] = integers((rows, width), dtype, 1)
        weight[1:-1, 20 : width + 20] = integers((columns, width), dtype, 2)
        check(x[1:-1, 20 : width + 20], (weight[1:-1, 20 : width + 20], None))


# ------------------------------------------------------------------ accuracy
# Wide enough for a steady RMS, and as wide as real layers. K = 256 is the worst for ours: torch cuts
# it in two halves, as we do.
SEEDS = 10
CASES = [(rows, width) for rows in (1, 2, 4, 8, 13, 16, 17, 40) for width in (256, 1024, 3072)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", (False, True), ids=("plain", "biased"))
def test_error_against_float64(dtype, biased, figures):
    """Geometric means over seeds: the RMS error of one product varies by a few per cent by chance."""
    for rows, width in CASES if GENERIC else [c for c in CASES if c[1] == 1024]:
        ratios = []
        for seed in range(SEEDS):
            x = values((rows, width), dtype, seed)
            weight = values((96, width), dtype, 100 + seed)
            bias = values((96,), dtype, 200 + seed) if biased else None
            exact = in_float64(x, weight, bias)
            theirs = harness.rms(F.linear(x, weight, bias).double() - exact)
            ours = harness.rms(run(x, (weight, bias))[0].double() - exact)
            ratios.append(harness.error_ratio(theirs, ours))
        ratio = harness.geometric_mean(ratios)
        name = str(dtype).removeprefix("torch.")
        figures(f"linear, error against float64 over torch's, {name}", ratio)
        assert ratio <= MAX_RATIO, f"M={rows}, K={width}: {ratio:.3f} times torch's"


@pytest.mark.parametrize("dtype", DTYPES)
def test_thin_error_against_float64(dtype):
    """torch adds up a few columns in another way than many, with shorter sums."""
    for rows, columns in itertools.product((2, 13, 40), (1, 5, 15)):
        ratios = []
        for seed in range(4 * SEEDS):
            x, weight = values((rows, 256), dtype, seed), values((columns, 256), dtype, 99 + seed)
            exact = in_float64(x, weight, None)
            theirs = harness.rms(F.linear(x, weight).double() - exact)
            ours = harness.rms(run(x, (weight, None))[0].double() - exact)
            ratios.append(harness.error_ratio(theirs, ours))
        ratio = harness.geometric_mean(ratios)
        assert ratio <= MAX_RATIO, f"M={rows}, N={columns}: {ratio:.3f} times torch's"


# ------------------------------------------------------------------ NaN, infinity, overflow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", (1, 4, 6, 20))
def test_not_finite(rows, dtype):
    width, columns = 45, 50
    weight = integers((columns, width), dtype, 2)
    weight[1, 44], weight[2, 0], weight[3, 7] = NAN, INF, -INF
    weight[4, 3], weight[4, 30] = INF, -INF
    bias = integers((columns,), dtype, 3)
    bias[7], bias[8] = NAN, INF
    for at, value in itertools.product((0, 17, 44), (NAN, INF, -INF, 1.0)):
        x = integers((rows, width), dtype, 1)
        x[-1, at] = value
        for b in (None, bias):
            (got,) = run(x, (weight, b))
            assert torch.equal(got.nan_to_num(), in_float64(x, weight, b).to(dtype).nan_to_num())
            assert torch.equal(got.isnan(), in_float64(x, weight, b).isnan())


@pytest.mark.parametrize("dtype", DTYPES)
def test_overflow_and_underflow(dtype):
    """A sum beyond float32 is infinite; a bfloat16 one rounds to infinity beyond its largest."""
    big, small = torch.finfo(dtype).max, torch.finfo(dtype).tiny
    weight = torch.tensor([[big, big], [big, -big], [small, 0.0], [-0.0, 0.0]], dtype=dtype)
    for rows in (1, 3, 20):
        x = torch.ones(rows, 2, dtype=dtype)
        (got,) = run(x, (weight, None))
        assert torch.equal(got, torch.tensor([[INF, 0.0, small, 0.0]], dtype=dtype).expand(rows, 4))
        (got,) = run(x / 2, (weight, None))
        want = torch.tensor([[big, 0.0, small / 2, 0.0]], dtype=dtype).expand(rows, 4)
        assert torch.equal(got, want)


# ------------------------------------------------------------------ threads, arguments, paths
@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_with_threads(dtype):
    width, before = 300, torch.get_num_threads()
    pairs = [(values((700, width), dtype, 2), None), (values((90, width), dtype, 3), None)]
    try:
        for rows in (1, 4, 12, 40, 300):
            x, got = values((rows, width), dtype, 1), []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                got.append(run(x, *pairs))
            for other in got[1:]:
                assert all(torch.equal(a, b) for a, b in zip(got[0], other, strict=True))
    finally:
        torch.set_num_threads(before)


def test_arguments_that_do_not_fit():
    x, weight, bias = torch.ones(3, 8), torch.ones(5, 8), torch.ones(5)
    op = kernels.get("linear", "m1")
    for arguments in (
        (x, torch.ones(5, 9), None),
        (x, torch.ones(8), None),
        (x, weight, torch.ones(4)),
        (x, weight, torch.ones(5, 1)),
        (x, weight.to(BF16), None),
        (x, weight, bias.to(BF16)),
        (torch.tensor(1.0), torch.ones(5, 1), None),
    ):
        with pytest.raises(RuntimeError, match="linear"):
            op(*arguments)
    assert torch.equal(op(x, weight, bias), F.linear(x, weight, bias))


CHILD = """
import torch, torch.nn.functional as F
from tfrewrite import kernels, rules
kernels.install(rules.load())
for dtype in (torch.float32, torch.bfloat16):
    for rows in (1, 4, 40):
        x, w = torch.ones(rows, 45, dtype=dtype), torch.ones(50, 45, dtype=dtype)
        y = kernels.get("linear", "m1")(x, w, None)
        paths = [kernels.last_path()]
        a, b = kernels.get("linears", "m2")(x, w, None, w, w[:, 0])
        paths.append(kernels.last_path())
        assert paths == [PATH, PATH], paths
        assert torch.equal(y, F.linear(x, w)) and torch.equal(y, a)
        assert torch.equal(b, F.linear(x, w, w[:, 0]))
"""


@pytest.mark.parametrize("path", sorted({"generic", "torch", modes.kernel_path()}))
def test_forced_path(path):
    forced = {"TFR_FORCE": f"linear:{path},linears:{path}"}
    code = f"PATH = {path!r}\n{CHILD}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | forced, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
