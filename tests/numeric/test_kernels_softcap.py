"""The kernel of softcap against the reference functions of its rule: to the bit in bfloat16 but for tanh's own last bit, within an ulp or
two of it in float32, on every layout, on numbers that are no cap, on NaN, infinities and signs of zeros.
"""

import math

import modes
import pytest
import torch
from tfrewrite import kernels, rules

pytestmark = pytest.mark.kernels
OPS = rules.load()
VARIANTS = [v.name for v in OPS["softcap"].variants]
F32, BF16 = torch.float32, torch.bfloat16
SPECIAL = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-40, -3e38, 65504.0])


def numbers(variant, cap):
    return (cap, 0.37) if variant == "scaled" else (cap,)


def hold(variant, x, cap):
    kernels.install(OPS)
    got = kernels.get("softcap", variant)(x, *numbers(variant, cap))
    assert kernels.last_path() == modes.kernel_path()
    want = kernels.reference(OPS["softcap"], variant)(x, *numbers(variant, cap))
    assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
    assert torch.equal(got.isnan(), want.isnan())
    got, want = got.nan_to_num(0.5).double(), want.nan_to_num(0.5).double()
    assert torch.equal(got.signbit(), want.signbit())
    off = (got - want).abs() / want.abs().clamp(min=1e-37 * min(max(abs(cap), 1.0), 1e30))
    if want.numel() and x.dtype == BF16 and variant != "in_float32":
        assert int((off > 0).sum()) <= 1e-3 * off.numel() and off.max() < 2**-6
    elif want.numel():
        assert off.max() < 1e-6
    return got


@pytest.mark.parametrize("dtype", (F32, BF16), ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_layouts(variant, dtype):
    generator = torch.Generator().manual_seed(0)
    base = (torch.randn(7, 9001, generator=generator) * 40).to(dtype)
    base[0, : len(SPECIAL)] = SPECIAL.to(dtype)
    for x in (base, base[:, 1:], base[:3, :5], base[0], base[:0], base[:, :0], base[:, ::2]):
        hold(variant, x, 30.0)
    blocks = base[:, :9000].view(7, 3, 3000)
    for x in (blocks.transpose(0, 1), blocks[::2, 1:], blocks[:1].expand(4, 3, 3000)):
        hold(variant, x, 30.0)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("cap", [0.0, -0.0, -30.0, math.inf, 1e-30, 1e300, 50])
def test_numbers_that_are_no_cap(variant, cap):
    for dtype in (F32, BF16):
        x = torch.cat((SPECIAL, torch.linspace(-90, 90, 200))).to(dtype)
        hold(variant, x, cap)


def test_every_bfloat16():
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(BF16)
    hold("in_its_dtype", x, 30.0)


def test_nan_is_refused():
    with pytest.raises(RuntimeError, match="softcap: cap or scale is NaN"):
        kernels.get("softcap", "scaled")(torch.ones(3), 30.0, math.nan)


def test_threads_share_one_row():
    """Logits of one token: a row is cut in pieces, whose bits do not depend on how."""
    x = torch.randn(1, 200_003, generator=torch.Generator().manual_seed(1)) * 50
    one = hold("in_its_dtype", x, 30.0)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert torch.equal(hold("in_its_dtype", x, 30.0), one)
    finally:
        torch.set_num_threads(before)
