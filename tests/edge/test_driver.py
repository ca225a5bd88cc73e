"""The driver: a right rewrite passes, each wrong one is caught by the check meant for it."""

from __future__ import annotations

import pytest
import torch
from edge_driver import (
    Fault,
    Outcome,
    check_bytes,
    check_report,
    check_runs,
    check_second_run,
    compare,
    freeze,
    read_expectations,
)

BEFORE = """\
# expect: fused act_mul Mlp.forward "tfr\\.act_mul"
# expect: refused linears Mlp.forward "one input"
import torch
import torch.nn.functional as F
from torch import nn

LOG = []


class Mlp(nn.Module):
    def forward(self, gate, up):
        # the product
        act = F.silu(gate)  # rounded
        LOG.append("done")
        return act * up


class Other(nn.Module):
    def forward(self, x):
        LOG.append("other")
        x.add_(1)
        return x.t() + torch.rand(3)

    def turned(self, x):
        return x.mT


def cases(dtype):
    x = torch.randn(3, 3, dtype=dtype)
    yield Mlp()(x, x + 1)
    yield Other()(x), x
    yield lambda: Mlp()(x, None)
    yield LOG
    yield x, Other().turned(x)
"""
AFTER = BEFORE.replace(
    "from torch import nn\n", "from torch import nn\nfrom tfrewrite import ops as tfr\n"
).replace(
    '        act = F.silu(gate)  # rounded\n        LOG.append("done")\n        return act * up\n',
    '        # rounded\n        LOG.append("done")\n        return tfr.act_mul(F.silu, gate, up)\n',
)
# For running: the op as a plain function, so that these tests stand on nothing but the driver.
RUNS = AFTER.replace(
    "from tfrewrite import ops as tfr\n",
    "class tfr:\n    act_mul = staticmethod(lambda act, gate, up: act(gate) * up)\n",
)


def report(changed=True, ops=("act_mul",), refused=True):
    place = {"class": "Mlp", "function": "forward", "line": 13}
    fused = [{"op": op, **place, "end_line": 15, "count": 1} for op in ops]
    said = {"op": "linears", **place, "column": 9, "reason": "not one input"}
    return {"changed": changed, "fused": fused, "refused": [said] if refused else []}


def outcome(text=AFTER, **kwargs) -> Outcome:
    return Outcome(0, text.encode(), report(**kwargs), "")


EXPECTED = read_expectations(BEFORE).items


def test_right_rewrite_passes():
    out = outcome()
    check_report(EXPECTED, BEFORE.encode(), out)
    check_bytes(BEFORE.encode(), out)
    check_second_run(out, outcome(changed=False, ops=()))
    for dtype in (torch.float32, torch.bfloat16):
        assert check_runs(BEFORE.encode(), RUNS.encode(), dtype) == 6


WRONG_REPORTS = {
    "exit status": Outcome(3, None, None, "refused"),
    "expected 1, fused 0": outcome(BEFORE, changed=False, ops=()),
    "the text holds": outcome(BEFORE.replace("LOG = []", "LOG = [ ]")),
    "the report counts": outcome(ops=("act_mul", "act_mul")),
    "does not expect it": outcome(
        AFTER.replace("x.t()", "tfr.linear(x, x)"), ops=("act_mul", "linear")
    ),
    "no reason is given": outcome(refused=False),
    "text says otherwise": outcome(changed=False),
    "is not in the result": outcome(AFTER.replace("tfr.act_mul", "tfr .act_mul")),
}


@pytest.mark.parametrize("message", WRONG_REPORTS)
def test_wrong_reports(message):
    with pytest.raises(Fault, match=message):
        check_report(EXPECTED, BEFORE.encode(), WRONG_REPORTS[message])


def test_wrong_reasons():
    wrong = read_expectations(
        '# expect: refused linears Mlp.forward "written"\n# expect: either *'
    ).items
    with pytest.raises(Fault, match="no reason of"):
        check_report(wrong, BEFORE.encode(), outcome())
    wrong = read_expectations("# expect: not-fused act_mul Mlp.*").items
    with pytest.raises(Fault, match="must stay"):
        check_report(wrong, BEFORE.encode(), outcome())
    wrong = read_expectations('# expect: either *\n# expect: no-text "act_mul"').items
    with pytest.raises(Fault, match="no-text"):
        check_report(wrong, BEFORE.encode(), outcome())
    with pytest.raises(ValueError, match="none of"):
        read_expectations("# expect: fuesd act_mul")


WRONG_BYTES = {
    "line of another function": AFTER.replace("x.t() + torch", "x.t()  + torch"),
    "comment lost": AFTER.replace("        # the product\n", ""),
    "blank line": AFTER.replace("\n\n\nclass Other", "\n\nclass Other"),
    "line end": AFTER.replace("LOG = []\n", "LOG = []\r\n"),
    "final newline": AFTER.rstrip("\n"),
    "two imports": AFTER.replace("LOG = []", "from tfrewrite import ops as tfr\nLOG = []"),
    "signature": AFTER.replace("def forward(self, gate, up)", "def forward(self, gate, up=None)"),
    "statement before the match": AFTER.replace("LOG = []", "LOG = list()"),
}


@pytest.mark.parametrize("name", WRONG_BYTES)
def test_wrong_bytes(name):
    assert WRONG_BYTES[name] != AFTER
    with pytest.raises(Fault):
        check_bytes(BEFORE.encode(), outcome(WRONG_BYTES[name]))


def test_line_inside_the_function_but_outside_the_match():
    out = outcome(AFTER.replace('LOG.append("done")', 'LOG.append( "done")'))
    check_bytes(BEFORE.encode(), out)  # inside the reported lines it may move and change
    out.report["fused"][0]["line"] = 15
    with pytest.raises(Fault, match="outside the fused ranges"):
        check_bytes(BEFORE.encode(), out)


def test_output_that_does_not_parse():
    with pytest.raises(SyntaxError):
        check_bytes(BEFORE.encode(), outcome(AFTER + "x = (\n"))
    with pytest.raises(SyntaxError):
        check_bytes(BEFORE.encode(), outcome(AFTER + "return\n"))  # parses, does not compile


def test_second_run_that_changes():
    with pytest.raises(Fault, match="second run"):
        check_second_run(outcome(), outcome(AFTER + "\n", changed=True))
    with pytest.raises(Fault, match="not accepted"):
        check_second_run(outcome(), Outcome(3, None, None, "no"))


# name: (text, what it becomes, what the driver must say)
CALL = "tfr.act_mul(F.silu, gate, up)"
WRONG_PROGRAMS = {
    "other numbers": ("gate, up)\n", "gate, up + 1e-3)\n", r"result 0.*9 of 9 elements"),
    "other rounding": (CALL, "(F.silu(gate.double()) * up).to(up.dtype)", "elements differ"),
    "other dtype": ("gate, up)\n", "gate, up.double())\n", "float64"),
    "statement lost": ('        LOG.append("done")\n', "", "result 3: 3 items became 1"),
    "order of effects": (
        "        x.add_(1)\n        return x.t()",
        "        y = x.t().clone()\n        x.add_(1)\n        return y",
        "result 1",
    ),
    "effect lost": ("x.add_(1)", "x.add(1)", "result 1"),
    "another random number": ("torch.rand(3)", "torch.rand(1)", "result 1"),
    "more random numbers": ("torch.rand(3)\n", "torch.rand(3) + 0 * torch.rand(1)\n", r"result 5\[1\]"),
    "other strides": ("x.t() + torch.rand(3)", "(x.t() + torch.rand(3)).contiguous()", "strides"),
    "shared memory": ("x.mT", "x.mT.clone()", "shares memory"),
    "other error": (CALL, "tfr.act_mul(F.silu, gate, up.mul(1))", "AttributeError"),
    "no error": (CALL, "tfr.act_mul(F.silu, gate, 1 if up is None else up)", "returned"),
    "raises": ("import nn\n", "import nn, no_such_name\n", "the result raises ImportError"),
    "raises later": ("x.t()", "x.no_such_method()", "the result raises AttributeError"),
    "gradient": ("gate, up)\n", "gate, up.requires_grad_())\n", "requires_grad"),
    "class of the result": (CALL, CALL + ".as_subclass(nn.Parameter)", "became tensor Parameter"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_PROGRAMS)
def test_wrong_programs(name):
    old, new, message = WRONG_PROGRAMS[name]
    wrong = RUNS.replace(old, new)
    assert wrong != RUNS
    with pytest.raises(Fault, match=message):
        check_runs(BEFORE.encode(), wrong.encode(), torch.float32)


@pytest.mark.parametrize("name", WRONG_PROGRAMS)
def test_wrong_programs_with_kernels(name):
    """Tolerance is for float values alone, and ends where a kernel would be wrong."""
    old, new, message = WRONG_PROGRAMS[name]
    if name == "other numbers":
        message = "result 0.*values differ by up to 0.001"
    wrong = RUNS.replace(old, new).encode()
    if name == "other rounding":  # within it
        check_runs(BEFORE.encode(), wrong, torch.float32, bits=False)
        return
    with pytest.raises(Fault, match=message):
        check_runs(BEFORE.encode(), wrong, torch.float32, bits=False)


def test_tolerance():
    x = torch.linspace(-3, 3, 64)

    def differ(a, b):
        compare(freeze(a, {}), freeze(b, {}), bits=False)

    for dtype, step in ((torch.float32, 1e-6), (torch.bfloat16, 2e-3)):
        differ(x.to(dtype), (x * (1 + step)).to(dtype))
        for other in (x * (1 + 30 * step), x.where(x > -3, torch.nan), x.where(x < 3, torch.inf)):
            with pytest.raises(Fault):
                differ(x.to(dtype), other.to(dtype))
            with pytest.raises(Fault):
                differ(other.to(dtype), x.to(dtype))
    differ(1.0, 1.0 + 1e-6)
    for a, b in ((1.0, 1.1), (1, 2), ("a", "b"), (x.long(), x.long() + 1), (x, x.double())):
        with pytest.raises(Fault):
            differ(a, b)


def test_inputs_that_test_nothing():
    silent = BEFORE[: BEFORE.index("def cases")] + "def cases(dtype):\n    yield from ()\n"
    with pytest.raises(Fault, match="yields nothing"):
        check_runs(silent.encode(), silent.encode(), torch.float32)
    failing = BEFORE.replace("yield LOG", "raise KeyError")
    with pytest.raises(KeyError):
        check_runs(failing.encode(), failing.encode(), torch.float32)


def test_bits():
    """NaN equals NaN, zero is not minus zero, an incomparable value is an error of the input."""
    nan, other = (
        torch.tensor([float("nan")]),
        torch.tensor([float("nan")]).view(torch.int32).add(1).view(torch.float32),
    )
    compare(freeze(nan, {}), freeze(other, {}))
    with pytest.raises(Fault):
        compare(freeze(torch.tensor([0.0]), {}), freeze(torch.tensor([-0.0]), {}))
    with pytest.raises(Fault):
        compare(freeze(nan, {}), freeze(torch.tensor([0.0]), {}))
    with pytest.raises(TypeError):
        freeze(object(), {})
