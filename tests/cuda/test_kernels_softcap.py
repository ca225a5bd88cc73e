"""The CUDA kernel of softcap on the simulated device, against its references: one row, many, rows that are not aligned or lie apart, more
elements than a row may have, special values, what a GPU that divides by multiplying gives.
"""

import math

import pytest
import simulated
import torch
from holding import hold, reference, variants
from shapes import BF16, DTYPES, arrangements, shifted, special_rows, values

VARIANTS = variants("softcap")


@pytest.fixture(autouse=True)
def few_blocks():
    """One multiprocessor, so that blocks have many units each."""
    simulated.configure(sms=1)


def numbers(variant, cap=30.0):
    return (cap, 0.37) if variant == "scaled" else (cap,)


def wide(shape, dtype, seed):
    return values(shape, dtype, seed, 40.0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_arrangements(variant, dtype):
    for x in arrangements(33, dtype, wide):
        hold("softcap", variant, x, *numbers(variant))
    for width in (1, 7, 8, 2049, 5000):
        x = wide((3, width), dtype, 2)
        hold("softcap", variant, x, *numbers(variant))
        hold("softcap", variant, shifted(x)[:, : width - 1], *numbers(variant))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_special_rows(variant, dtype):
    for cap in (50.0, -2.0, math.inf, 0.0):
        hold("softcap", variant, special_rows(24, dtype), *numbers(variant, cap))


def test_it_is_one_pass():
    """Every element in and out once, by accesses of 128 bits."""
    from traffic import measure

    for x in (wide((1, 40_000), BF16, 1), wide((32, 512), BF16, 2)):
        traffic = measure("softcap", "in_its_dtype", x, 30.0)
        assert traffic.requested == traffic.least == 2 * x.nbytes


def test_rounds_after_each_operation():
    """A kernel that rounds once would not be taken for this one."""
    x = wide((64, 512), BF16, 3)
    once = (torch.tanh(x.float() / 30.0) * 30.0).bfloat16()
    (want,) = reference("softcap", "in_its_dtype", x, 30.0)
    assert (once != want).float().mean() > 0.05
    (got,) = hold("softcap", "in_its_dtype", x, 30.0)
    assert (got != want).float().mean() < 1e-3
