"""An op of one's own with a CUDA kernel, samples/custom_op: found, compiled, launched, and equal."""

from pathlib import Path

import pytest
import simulated
import torch
from tfrewrite import kernels, rules

RULES = Path(__file__).parents[2] / "samples/custom_op/rules"
ULP = {torch.float32: 1e-6, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}


@pytest.fixture(scope="module", autouse=True)
def squash():
    rules.add(RULES)


@pytest.mark.parametrize("variant", ["in_its_dtype", "in_float32"])
@pytest.mark.parametrize("dtype", ULP, ids=str)
def test_kernel_equals_the_reference(variant, dtype):
    torch.manual_seed(0)
    x = (torch.randn(7, 1032) * 40).to(dtype)
    x[0, :4] = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0])
    reference = kernels.reference(rules.load()["squash"], variant)
    for given in (x, x[:, 1:], x[:1, :3], x[:0], x.view(7, 2, 516).transpose(0, 1)):
        with simulated.strict():
            before = simulated.launches()
            result = simulated.kernel("squash", variant)(given, 0.1)
        expected = reference(given, 0.1)
        assert kernels.last_path() == "cuda"
        assert simulated.launches() == before + (given.numel() > 0)
        assert not given.numel() or simulated.report()["findings"] == []
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected, rtol=ULP[dtype], atol=0, equal_nan=True)
        other = (result != expected) & ~expected.isnan()  # tanhf's last bit shows in 16 bits rarely
        assert dtype is torch.float32 or other.sum() <= 1e-3 * x.numel()
