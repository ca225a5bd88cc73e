"""l2_norm on the simulated device: every form and dtype against its reference (holding.py).

What walks over rows is rms_norm's, on which test_kernels_cuda.py tries every width and layout; here
each form takes its turn at a width of each kind.
"""

import pytest
import simulated
import torch
from holding import hold, variants
from shapes import (
    BF16,
    DTYPES,
    F32,
    FLOAT32_ALONE,
    every_rank,
    exact,
    l2_arguments,
    shifted,
    special_rows,
    values,
)

FORMS = variants("l2_norm")
# Less than a pack, odd, one warp, several, the widest that stays in registers, wider.
WIDTHS = (1, 7, 128, 1000, 2560, 16392)


@pytest.fixture(autouse=True)
def few_blocks():
    """One multiprocessor, so that blocks have many units each."""
    simulated.configure(sms=1)


def l2(variant, x, eps=1e-6):
    hold("l2_norm", variant, *l2_arguments(variant, x, eps))


def dtypes_of(variant):
    return (F32,) if variant in FLOAT32_ALONE else DTYPES


@pytest.mark.parametrize("variant", FORMS)
def test_dtypes(variant):
    for dtype in dtypes_of(variant):
        l2(variant, values((40, 72), dtype, 1, 3.0))
        l2(variant, shifted(exact((2, 3, 5, 72), dtype, 3)).transpose(1, 2))
        l2(variant, values((5, 72), dtype, 2, 1e-3), eps=0.25)
        l2(variant, special_rows(72, dtype))


@pytest.mark.parametrize("width", WIDTHS)
def test_widths(width):
    turn = WIDTHS.index(width)
    for variant in FORMS[turn % 2 :: 2]:
        dtypes = dtypes_of(variant)
        dtype = dtypes[(turn + FORMS.index(variant)) % len(dtypes)]
        for rows in (0, 1, 5) if width <= 4096 else (1, 3):
            l2(variant, exact((rows, width), dtype, 1))


def test_ranks():
    for x in every_rank(64, BF16, rows=40):
        l2("by_norm", x)


def test_other_axes_are_refused():
    for variant, x, dim in (
        ("by_sqrt", torch.ones(3, 8), 0),
        ("by_rsqrt", torch.ones(3, 8).bfloat16(), -1),
    ):
        with pytest.raises(RuntimeError, match="^tfr::l2_norm"):
            simulated.kernel("l2_norm", variant)(x, 1e-6, dim)
