"""The same numbers from the PTX of every target, on a device of its compute capability: some lines of
the templates are for newer or older ones alone.
"""

import re
from pathlib import Path

import apart
import pytest

ROWS = re.findall(
    r"^TFR_CUDA_TARGET\((\d+), (\d+), \"a?\", (true|false)",
    (Path(__file__).parents[2] / "jit/target.def").read_text(),
    re.MULTILINE,
)


def calls(dtype):
    """Packs and single elements, shuffles, barriers, tables."""
    import torch
    from shapes import shifted, values

    x, y = (values((9, 2560), dtype, i) for i in (1, 2))
    weight, head = values((2560,), dtype, 3), values((128,), dtype, 4)
    q, k = values((2, 5, 16, 128), dtype, 5), values((2, 5, 8, 128), dtype, 6)
    cos, sin = values((2, 5, 128), dtype, 7), values((2, 5, 128), dtype, 8)
    both = torch.stack((x, y), -1).flatten(-2)
    norm = head, 1e-6, 0
    yield "rms_norm", "cast_then_weight", x, weight, 1e-6
    yield "rms_norm", "cast_then_weight", shifted(x), shifted(weight), 1e-6
    yield "add_rms_norm", "add_then_norm", x, y, weight, 1e-6, 0
    yield "add_layer_norm", "add_then_norm", x, y, weight, weight.flip(0), 1e-6, 2560
    yield "act_mul", "two_inputs", 0, x, y
    yield "act_mul", "packed_interleaved", 0, both
    yield "rope", "half_both", q.transpose(1, 2), k.transpose(1, 2), cos, sin, 1
    yield "qk_norm_rope", "norm_transpose_rope", q, k, *norm, *norm, cos, sin, 1


def held(major, minor, has_bf16):
    import simulated
    import torch
    from holding import hold

    simulated.configure(capability=f"{major}.{minor}")
    count = 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        without = dtype == torch.bfloat16 and not has_bf16
        for call in calls(dtype):
            hold(*call, path="aten" if without else "cuda")
            count += 1
    targets = {
        re.search(r"^\.target (\w+)", text, re.MULTILINE)[1] for text in simulated.programs()
    }
    return count, targets


@pytest.mark.parametrize("major, minor, bf16", ROWS, ids=".".join)
def test_target(major, minor, bf16):
    number = major + minor
    (count, targets), warnings = apart.run(
        held, major, minor, bf16 == "true", TFR_CUDA_TARGET=f"compute_{number}", TFR_JIT="sync"
    )
    assert count == 3 * 8 and targets == {f"sm_{number}"}
    assert len(warnings) == (bf16 == "false")
    assert all("no bfloat16" in text for text in warnings)
