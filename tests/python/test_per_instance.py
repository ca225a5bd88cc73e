"""Instances of one class that differ: what `prepare` and `report` say each will run, and its numbers.

What one instance's modules of `tfr.linears` are is in test_packing_groups.py.
"""

import modes
import pytest
import tfrewrite
import torch
import torch.nn.functional as F
from test_models import close
from tfrewrite import ops as tfr
from torch import nn

pytestmark = pytest.mark.kernels  # what a sanitised build, which Python cannot load, has none of


def reference(x, weight, eps):
    h = x.float()
    return weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.randn(size)), eps

    def forward(self, x):
        return tfr.rms_norm(x, self.weight, self.eps, order="cast_weight")


class Shifted(Norm):
    def forward(self, x):
        return reference(x, self.weight, self.eps) + 1


class Helped(Norm):
    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return tfr.rms_norm(x, self.weight, self.eps, order="cast_weight", via=self._norm)


class Snake(nn.Module):
    def forward(self, x):
        return x + x.sin() ** 2


class Block(nn.Module):
    def __init__(self, size, act, eps=1e-6):
        super().__init__()
        self.norm, self.after, self.act = Norm(size, eps), nn.LayerNorm(size, eps), act
        self.own, self.eps = nn.Parameter(torch.randn(size)), eps

    def forward(self, x, gate):
        h, x = tfr.add_rms_norm(x, gate, self.norm)
        h = tfr.act_mul(self.act, gate, h)
        h = tfr.gated_rms_norm(h, gate, F.silu, self.own, self.eps, order="gate_cast_weight")
        h, x = tfr.add_layer_norm(h, x, self.after)
        return h + x

    def unfused(self, x, gate):
        x = gate + x
        h = self.act(gate) * self.norm(x)
        x = x + reference(h * F.silu(gate), self.own, self.eps)
        return self.after(x) + x


CALLS = {  # of Block.forward, as decisions name them
    "add_rms_norm": "add_rms_norm/add_then_norm",
    "act_mul": "act_mul/two_inputs",
    "gated_rms_norm": "gated_rms_norm/gate_then_norm",
    "add_layer_norm": "add_layer_norm/add_then_norm",
}


@pytest.fixture
def model():
    torch.manual_seed(0)
    kinds = [(64, nn.SiLU()), (32, nn.GELU(), 1e-5), (64, Snake()), (64, nn.SiLU())]
    return nn.ModuleList(Block(*kind) for kind in kinds).requires_grad_(False)


def run(block):
    """The ops that ran a kernel, having compared the numbers."""
    x, gate = torch.randn(2, 3, block.own.numel(), generator=torch.Generator().manual_seed(1))
    with tfr.record() as calls, torch.no_grad():
        got = block(x, gate.clone())  # an activation may be in place
        ran = {op for op, _, path in calls if path not in ("reference", "helper")}
        assert close(got, block.unfused(x, gate))
    return ran


def decided(model, path):
    return {d.op.split("/")[0]: d for d in tfrewrite.prepare(model).decisions if d.path == path}


def hold(model, path, reasons):
    """That the named ops of an instance run no kernel, for these reasons, and the others do."""
    found = decided(model, path)
    assert {op: d.reason for op, d in found.items() if not d.kernel} == reasons
    assert run(model.get_submodule(path)) - {"rms_norm"} == found.keys() - reasons.keys()


def test_each_instance(model):
    assert {d.op for d in decided(model, "0").values()} == set(CALLS.values())
    for path, size, eps in [("0", 64, "1e-06"), ("1", 32, "1e-05"), ("3", 64, "1e-06")]:
        found = decided(model, path)
        assert found["add_rms_norm"].facts == f"norm cast_then_weight {size} eps {eps}"
        assert found["gated_rms_norm"].facts == f"F.silu SILU, own {size}, eps {eps}"
        assert found["add_layer_norm"].facts == f"after {size} eps {eps}"
        assert found["act_mul"].facts == f"act {'SILU' if size == 64 else 'GELU'}"
        hold(model, path, {})
    snake = f"act is a {__name__}.Snake, no activation that kernels know"
    hold(model, "2", {"act_mul": snake})


def test_report(model):
    text = str(tfrewrite.report(model))
    for line in (
        "  Norm x3: rms_norm/cast_then_weight (weight 64, eps 1e-06): kernel",
        "  Norm x1: rms_norm/cast_then_weight (weight 32, eps 1e-05): kernel",
        "  Block x2: act_mul/two_inputs (act SILU): kernel",
        "  Block x1: act_mul/two_inputs (act GELU): kernel",
        f"  Block x1: act_mul/two_inputs: no kernel: act is a {__name__}.Snake, "
        "no activation that kernels know (first: 2)",
        "  Block x3: add_rms_norm/add_then_norm (norm cast_then_weight 64 eps 1e-06): kernel",
    ):
        assert line in text.splitlines(), text
    assert str(tfrewrite.report(model[2])).count("(first: the model)") == 1


UNKNOWN = "no activation that kernels know"
CALL = "whose forward is not one rms_norm call with a weight and a float eps"
PLAIN = "no plain LayerNorm of one dimension"
MADE = "torch.nn.modules"
REPLACED = {  # attribute, what it becomes: why the reference of the one op that reads it runs
    "in place": ("act", nn.SiLU(inplace=True), f"act is a {MADE}.activation.SiLU, {UNKNOWN}"),
    "another": ("act", Snake(), f"act is a {__name__}.Snake, {UNKNOWN}"),
    "a function": ("act", torch.sin, f"act is sin, {UNKNOWN}"),
    "a norm": ("norm", Shifted(64), f"norm is a {__name__}.Shifted, {CALL}"),
    "eps of a norm": ("norm.eps", torch.tensor(1e-6), f"norm is a {__name__}.Norm, {CALL}"),
    "forward": ("norm.forward", lambda x: x, "norm has a forward of its own"),
    "eps": ("eps", 1, "eps is a builtins.int, not a float"),
    "dtype": ("own", torch.ones(64).half(), "own is torch.float16 on cpu, not what kernels take"),
    "other norm": ("after", nn.RMSNorm(64), f"after is a {MADE}.normalization.RMSNorm, {PLAIN}"),
    "sizes": (
        "after",
        nn.LayerNorm((3, 64)),
        f"after is a {MADE}.normalization.LayerNorm, {PLAIN}",
    ),
}
READS = {"act": "act_mul", "norm": "add_rms_norm", "after": "add_layer_norm"}


@pytest.mark.parametrize("what", REPLACED)
def test_replaced_after_prepare(model, what):
    hold(model, "0", {})
    name, value, reason = REPLACED[what]
    owner, _, attribute = name.rpartition(".")
    if attribute in ("own", "act"):  # torch lets neither a tensor nor a function take their places
        delattr(model[0], attribute)
    setattr(model[0].get_submodule(owner), attribute, value)
    op = READS.get(name.split(".")[0], "gated_rms_norm")
    hold(model, "0", {op: reason})
    hold(model, "3", {})
    line = next(t for t in str(tfrewrite.report(model)).splitlines() if reason in t)
    assert line.startswith(f"  Block x{2 if what == 'another' else 1}: {CALLS[op]}")
    assert line.endswith(f": no kernel: {reason} (first: 0)")


@pytest.mark.parametrize("name", ["act", "norm", "after"])
def test_hooked_after_prepare(model, name):
    hold(model, "0", {})
    hooked = getattr(model[0], name)
    handle = hooked.register_forward_hook(lambda module, inputs, output: output * 2)
    hold(model, "0", {READS[name]: f"{name} has a forward hook"})
    handle.remove()
    hold(model, "0", {})


def test_forward_of_an_instance(model):
    model[0].forward = model[0].unfused
    why = "its forward was replaced on the instance"
    assert {d.reason for d in decided(model, "0").values()} == {why} and run(model[0]) == {
        "rms_norm"
    }


def test_global_hook(model):
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None)
    try:
        found = {op: d.reason for op, d in decided(model, "0").items() if not d.kernel}
    finally:
        handle.remove()
    names = {"add_rms_norm": "norm", "add_layer_norm": "after", "act_mul": "act"}
    assert found == {op: f"{name} is called with global hooks" for op, name in names.items()}


def test_kernels_off(model):
    with modes.running(modes.REFERENCES):
        found = decided(model, "0").values()
    assert {d.reason for d in found} == {"kernels are off or not loaded"}


def test_replaced_helper():
    model = nn.ModuleList([Helped(8), Helped(8)]).requires_grad_(False)
    model[1]._norm = lambda x: x
    x = torch.randn(2, 8)
    assert close(model[0](x), reference(x, model[0].weight, 1e-6))
    assert torch.equal(model[1](x), model[1].weight * x)
    reasons = [d.reason for d in tfrewrite.prepare(model).decisions]
    assert reasons == ["", "self._norm was replaced"]
