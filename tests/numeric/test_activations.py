"""Which modules and functions count as which activation: activations.py."""

import functools
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import transformers.activations as known
from tfrewrite import activations
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
NUMBER = {name: i for i, name in enumerate(activations.ACTS)}
FLOATS = (torch.float32, torch.bfloat16)

TAKEN = {
    "SILU": [nn.SiLU(), known.SiLUActivation(), F.silu],
    "GELU": [
        nn.GELU(),
        known.GELUActivation(),
        F.gelu,
        functools.partial(F.gelu, approximate="none"),
    ],
    "GELU_TANH": [
        nn.GELU(approximate="tanh"),
        known.GELUTanh(),
        known.PytorchGELUTanh(),
        functools.partial(F.gelu, approximate="tanh"),
    ],
    "RELU": [nn.ReLU(), F.relu, torch.relu],
    "RELU2": [known.ReLUSquaredActivation()],
    "SIGMOID": [nn.Sigmoid(), torch.sigmoid, F.sigmoid],
    "TANH": [nn.Tanh(), torch.tanh, F.tanh],
    "QUICK_GELU": [known.QuickGELUActivation()],
    "NEW_GELU": [known.NewGELUActivation(), known.AccurateGELUActivation()],
    "IDENTITY": [nn.Identity(), known.LinearActivation()],
}
ROWS = [(name, act) for name, acts in TAKEN.items() for act in acts]


def every_value(dtype):
    """Of bfloat16, its lower half left zero in float32, where as many others follow."""
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).to(dtype)
    return torch.cat((x, torch.randn(65536, generator=torch.Generator().manual_seed(1)).to(dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name, act", ROWS, ids=[f"{n}-{getattr(a, '__name__', a)}" for n, a in ROWS]
)
def test_taken_are_the_same_bits(name, act, dtype):
    """With torch's function for the number, on every bfloat16 value."""
    number = activations.number(act)
    assert number == NUMBER[name]
    x = every_value(dtype)
    torch.testing.assert_close(
        act(x), activations.function(number)(x), rtol=0, atol=0, equal_nan=True
    )


def test_names_are_those_of_the_kernels():
    text = (ROOT / "codegen_templates" / "acts.h").read_text()
    assert tuple(re.findall(r"^ *X\((\w+)\)", text, re.M)) == activations.ACTS == tuple(TAKEN)


class MySiLU(nn.SiLU):
    pass


@pytest.mark.parametrize(
    "act",
    [
        nn.SiLU(inplace=True),
        nn.ReLU(inplace=True),
        nn.ReLU6(),
        nn.Mish(),
        nn.ELU(),
        MySiLU(),
        known.GELUActivation(use_gelu_python=True),
        known.GELUTanh(use_gelu_tanh_python=True),
        known.FastGELUActivation(),
        known.ClippedGELUActivation(-10, 10),
        nn.Sequential(nn.SiLU()),
        functools.partial(F.silu, inplace=True),
        functools.partial(F.gelu),
        F.relu_,
        F.softplus,
        lambda x: x,
        "silu",
        None,
        [nn.SiLU()],
    ],
    ids=lambda act: getattr(act, "__name__", repr(act))[:40],
)
def test_others_are_not_taken(act):
    assert activations.number(act) is None


@pytest.mark.parametrize("make", [nn.SiLU, nn.GELU, known.SiLUActivation, known.GELUTanh])
def test_changed_instances_are_not_taken(make):
    def hook(*_):
        return None

    for change in (
        lambda act: act.register_forward_hook(hook),
        lambda act: act.register_forward_pre_hook(hook),
        lambda act: act.register_full_backward_hook(hook),
        lambda act: setattr(act, "forward", torch.tanh),
    ):
        act = make()
        assert activations.number(act) is not None
        change(act)
        assert activations.number(act) is None


def test_parameters_of_an_instance_are_read_at_each_call():
    act = nn.GELU()
    act.approximate = "tanh"
    assert activations.number(act) == NUMBER["GELU_TANH"]
    act.approximate = "other"
    assert activations.number(act) is None
    act = nn.SiLU()
    act.inplace = True
    assert activations.number(act) is None
    act = known.AccurateGELUActivation()
    act.precomputed_constant = 0.8
    assert activations.number(act) is None
    act = known.GELUTanh()
    act.act = F.silu
    assert activations.number(act) is None


@pytest.mark.parametrize(
    "module, name, act",
    [
        (F, "silu", nn.SiLU()),
        (F, "silu", known.SiLUActivation()),
        (F, "relu", known.ReLUSquaredActivation()),
        (torch, "tanh", known.NewGELUActivation()),
    ],
)
def test_replaced_functions_are_seen(module, name, act, monkeypatch):
    assert activations.number(act) is not None
    monkeypatch.setattr(module, name, lambda x, *_: x)
    assert activations.number(act) is None


def test_replaced_forward_is_seen(monkeypatch):
    assert activations.number(nn.SiLU()) is not None
    monkeypatch.setattr(nn.SiLU, "forward", lambda self, x: x)
    assert activations.number(nn.SiLU()) is None
