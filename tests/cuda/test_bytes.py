"""What the kernels of norms, activations and caps move at 4096 tokens of 2560: at most 1.05 times what they
must (layer norms a little more, having two weights), in whole sectors, by accesses of 128 bits.

Counted by the simulator in NVRTC's PTX, so it holds for what a kernel asks for. What of that caches
answer, and how fast, is not known here. A norm's weight is asked for once by each block, the only
bytes beyond the least: how many those are depends on how many blocks a GPU holds.
"""

from dataclasses import dataclass

import apart
import pytest

TOKENS, HIDDEN, MOST = 4096, 2560, 1.05
MOST_OF_TWO = {"add_layer_norm.add_then_norm": 1.07, "add_layer_norm.norm_of_sum": 1.09}
H100 = 132  # multiprocessors, of an H200 too


@dataclass
class Counted:
    """Of one call, in a process of its own, since a process has one number of multiprocessors."""

    call: str
    weight: int  # bytes
    traffic: object


def count(multiprocessors, tokens, dtype_name, hidden=HIDDEN, unaligned=False):
    import simulated
    import torch
    from shapes import gated_arguments, l2_arguments, shifted, values
    from traffic import measure

    simulated.configure(sms=multiprocessors)
    dtype = getattr(torch, dtype_name)
    x, y = (values((tokens, hidden), dtype, i) for i in (1, 2))
    x = shifted(x) if unaligned else x
    weight = values((hidden,), dtype, 3)
    weights = {"rms_norm": 1, "add_rms_norm": 1, "add_layer_norm": 2, "gated_rms_norm": 1}
    l2, gated = "by_rsqrt_in_float32", "cast_weight_then_gate"
    calls = [
        ("rms_norm", "cast_then_weight", x, weight, 1e-6),
        ("add_rms_norm", "add_then_norm", x, y, weight, 1e-6, 0),
        ("add_layer_norm", "add_then_norm", x, y, weight, weight.flip(0), 1e-6, hidden),
        ("add_layer_norm", "norm_of_sum", x, y, weight, weight.flip(0), 1e-6, hidden),
        ("gated_rms_norm", gated, *gated_arguments(gated, x, y, 0, weight)),
        ("l2_norm", l2, *l2_arguments(l2, x)),
        ("softcap", "in_its_dtype", x, 30.0),
        ("act_mul", "two_inputs", 0, x, y),
        ("act_mul", "packed_gate_first", 0, torch.cat((x, y), -1), -1),
        ("act_mul", "packed_interleaved", 0, torch.stack((x, y), -1).flatten(-2)),
    ]
    return [
        Counted(".".join(call[:2]), weights.get(call[0], 0) * weight.nbytes, measure(*call))
        for call in calls
    ]


@pytest.fixture(scope="module")
def counted():
    known = {}

    def get(*arguments, **named):
        key = arguments, *named.items()
        if key not in known:
            known[key], warnings = apart.run(count, *arguments, *named.values())
            assert warnings == []
            for c in known[key]:
                t = c.traffic
                print(f"{arguments} {c.call}: {t.ratio:.4f} of the least, sectors {t.sectors_used:.4f}"
                      f" used, 128 bits {t.wide:.4f}, {t.blocks} blocks of {t.threads}")  # fmt: skip
        return known[key]

    return get


@pytest.mark.parametrize("dtype, share", [("bfloat16", 1), ("float32", 4), ("float16", 4)])
def test_bytes(counted, dtype, share):
    """Of f32 and f16 a quarter of the tokens on a quarter of the multiprocessors: as many rows for
    each block.
    """
    for c in counted(H100 // share, TOKENS // share, dtype):
        t = c.traffic
        # A block of a layer norm asks for two weights, and without the sum for less besides.
        most = MOST_OF_TWO.get(c.call, MOST)
        assert t.ratio <= most, c.call
        assert t.requested == t.least + (t.blocks - 1) * c.weight, c.call
        assert t.unique == t.least, c.call
        # Of interleaved pairs there are half as many results, in accesses of 64 bits.
        assert t.sectors_used >= 0.98 and t.wide >= (0.5 if "interleaved" in c.call else 0.98), (
            c.call
        )
        assert t.conflicts == 0, c.call


def test_unaligned_rows(counted):
    """Elements come one by one then, but no more of them."""
    for c in counted(1, 128, "bfloat16", HIDDEN, True):
        t = c.traffic
        assert t.unique == t.least and t.conflicts == 0, c.call
        assert t.requested == t.least + (t.blocks - 1) * c.weight, c.call


@pytest.mark.parametrize("width", [16384, 40000])
def test_wide_rows(counted, width):
    """Up to 16384 a row is read once; wider ones twice, each with the weight, or thrice for mean and
    variance, whose kernel adds anew.
    """
    rows = 16
    for c in counted(1, rows, "bfloat16", width):
        t, again = c.traffic, 0
        if width == 40000 and c.call.startswith("add_rms"):
            again = rows * width * 2  # the sum, written and then read
        assert t.unique == t.least + again and t.sectors_used >= 0.98 and t.conflicts == 0, c.call
        if width == 16384 or "norm" not in c.call:
            assert t.requested == t.least + (t.blocks - 1) * c.weight, c.call
        else:
            times = 3 if "layer" in c.call else 2
            assert t.requested <= times * t.least + rows * c.weight, c.call
