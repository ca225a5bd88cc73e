"""An op of one's own with a CUDA kernel, samples/custom_op: found, compiled, launched, and equal."""

from pathlib import Path

import pytest
import simulated
import torch
from tfrewrite import kernels, rules

RULES = Path(__file__).parents[2] / "samples/custom_op/rules"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(scope="module", autouse=True)
def softcap():
    rules.add(RULES)


@pytest.mark.parametrize("variant", ["in_its_dtype", "in_float32"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernel_equals_the_reference(variant, dtype):
    torch.manual_seed(0)
    x = (torch.randn(7, 1032) * 40).to(dtype)
    x[0, :4] = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0])
    reference = kernels.reference(rules.load()["softcap"], variant)
    for given in (x, x[:, 1:], x[:1, :3], x[:0], x.view(7, 2, 516).transpose(0, 1)):
        with simulated.strict():
            before = simulated.launches()
            result = simulated.kernel("softcap", variant)(given, 30.0)
        expected = reference(given, 30.0)
        assert kernels.last_path() == "cuda"
        assert simulated.launches() == before + (given.numel() > 0)
        assert not given.numel() or simulated.report()["findings"] == []
        assert result.stride() == expected.stride()
        torch.testing.assert_close(
            result, expected, rtol=1e-6 if dtype is torch.float32 else 0, atol=0, equal_nan=True
        )
