"""The activations that kernels know: their numbers, and what of torch and Transformers they are.

A number is the place of a name in codegen_templates/acts.h, which has the same order; act.h there
computes them. An activation counts only if calling it is known to run that computation, with its
roundings: the exact type or function, no hooks, nothing replaced, no `inplace`. tests/numeric/
test_activations.py holds each row against the kernel's bits. This module must not know any op.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tfrewrite.guards import plain

__all__ = ["ACTS", "function", "number"]


def _relu2(x: torch.Tensor) -> torch.Tensor:
    return F.relu(x).pow(2)


def _quick_gelu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(1.702 * x)


def _new_gelu(x: torch.Tensor) -> torch.Tensor:
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def _identity(x: torch.Tensor) -> torch.Tensor:
    return x


_gelu_tanh = functools.partial(F.gelu, approximate="tanh")
_REFERENCES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "SILU": F.silu,
    "GELU": F.gelu,
    "GELU_TANH": _gelu_tanh,
    "RELU": F.relu,
    "RELU2": _relu2,
    "SIGMOID": torch.sigmoid,
    "TANH": torch.tanh,
    "QUICK_GELU": _quick_gelu,
    "NEW_GELU": _new_gelu,
    "IDENTITY": _identity,
}
ACTS: tuple[str, ...] = tuple(_REFERENCES)


def function(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """What the kernel computes for this number, in torch."""
    return _REFERENCES[ACTS[number]]


def number(act: Any) -> int | None:
    """The number of the activation that calling `act` is; None: not known to be one."""
    kind = type(act)
    row = _rows.get(kind)
    if row is not None:
        return row.number(act)
    if kind is FunctionType or kind is BuiltinFunctionType:
        return _FUNCTIONS.get(act)
    if kind is functools.partial:
        return _partial(act)
    if kind.__module__ == _TRANSFORMERS and _add_transformers(kind):
        return number(act)
    return None


# ------------------------------------------------------------------ functions
_FUNCTIONS: dict[Any, int] = {
    known: ACTS.index(name)
    for name, functions in {
        "SILU": (F.silu,),
        "GELU": (F.gelu,),
        "RELU": (F.relu, torch.relu),
        "SIGMOID": (F.sigmoid, torch.sigmoid),
        "TANH": (F.tanh, torch.tanh),
    }.items()
    for known in functions
}
_GELUS = {"none": ACTS.index("GELU"), "tanh": ACTS.index("GELU_TANH")}


def _partial(act: Any) -> int | None:
    """functools.partial(F.gelu, approximate="tanh")"""
    if type(act) is not functools.partial or act.func is not _gelu_tanh.func or act.args:
        return None
    return _gelu(act.keywords.get("approximate")) if act.keywords.keys() == _KEYWORDS else None


_KEYWORDS = _gelu_tanh.keywords.keys()


def _gelu(approximate: Any) -> int | None:
    return _GELUS.get(approximate) if type(approximate) is str else None


# ------------------------------------------------------------------ modules
@dataclass(frozen=True)
class _Row:
    """A class whose instances are activations."""

    forward: FunctionType  # as it was when the class was read
    choose: Callable[[Any], int | None]  # from the instance's own attributes
    uses: tuple[tuple[Any, str, Any], ...]  # what its forward calls: module, name, what is there

    def number(self, act: Any) -> int | None:
        if type(act).forward is not self.forward or not plain(act):
            return None
        for module, name, known in self.uses:
            if getattr(module, name) is not known:  # somebody has replaced it
                return None
        return self.choose(act)


def _row(forward: FunctionType, choose: Callable[[Any], int | None], *uses: str) -> _Row:
    """`uses`: "F.silu", "torch.tanh"."""
    modules = {"F": F, "torch": torch}
    split = [use.split(".") for use in uses]
    return _Row(forward, choose, tuple((modules[m], n, getattr(modules[m], n)) for m, n in split))


def _always(name: str) -> Callable[[Any], int | None]:
    found = ACTS.index(name)
    return lambda act: found


def _unless_inplace(name: str) -> Callable[[Any], int | None]:
    found = ACTS.index(name)
    return lambda act: None if act.inplace is not False else found


_rows: dict[type, _Row] = {
    nn.SiLU: _row(nn.SiLU.forward, _unless_inplace("SILU"), "F.silu"),
    nn.GELU: _row(nn.GELU.forward, lambda act: _gelu(act.approximate), "F.gelu"),
    nn.ReLU: _row(nn.ReLU.forward, _unless_inplace("RELU"), "F.relu"),
    nn.Sigmoid: _row(nn.Sigmoid.forward, _always("SIGMOID"), "torch.sigmoid"),
    nn.Tanh: _row(nn.Tanh.forward, _always("TANH"), "torch.tanh"),
    nn.Identity: _row(nn.Identity.forward, _always("IDENTITY")),
}

# Looked up only once an instance turns up: importing Transformers takes seconds.
_TRANSFORMERS = "transformers.activations"


def _with_act(otherwise: str | None) -> Callable[[Any], int | None]:
    """Classes that keep the function they call as `self.act`, in versions that have it."""
    default = None if otherwise is None else ACTS.index(otherwise)

    def choose(act: Any) -> int | None:
        inner = vars(act).get("act")
        if inner is None:
            return default
        return _FUNCTIONS.get(inner) if type(inner) is BuiltinFunctionType else _partial(inner)

    return choose


def _accurate_gelu(act: Any) -> int | None:
    same = vars(act).get("precomputed_constant") == math.sqrt(2 / math.pi)
    return ACTS.index("NEW_GELU") if same else None


_BY_NAME: dict[str, tuple[Any, ...]] = {
    "SiLUActivation": (_always("SILU"), "F.silu"),
    "GELUActivation": (_with_act(None),),
    "GELUTanh": (_with_act(None),),
    "PytorchGELUTanh": (_with_act("GELU_TANH"), "F.gelu"),
    "NewGELUActivation": (_always("NEW_GELU"), "torch.tanh", "torch.pow"),
    "AccurateGELUActivation": (_accurate_gelu, "torch.tanh", "torch.pow"),
    "QuickGELUActivation": (_always("QUICK_GELU"), "torch.sigmoid"),
    "ReLUSquaredActivation": (_always("RELU2"), "F.relu", "torch.square"),
    "LinearActivation": (_always("IDENTITY"),),
}


def _add_transformers(kind: type) -> bool:
    """Adds the row of a class of transformers.activations; False: it is none of these."""
    row = _BY_NAME.get(kind.__name__)
    own = getattr(sys.modules.get(_TRANSFORMERS), kind.__name__, None)
    if row is None or own is not kind or not issubclass(kind, nn.Module):
        return False
    forward = kind.forward
    if type(forward) is not FunctionType or forward.__module__ != _TRANSFORMERS:
        return False
    _rows[kind] = _row(forward, *row)
    return True
