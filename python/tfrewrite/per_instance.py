"""What each instance of a class will run: a kernel of an op, or its reference and why.

Instances of one class may differ in widths, eps and activations, and in what somebody did to them.
guards.py decides that anew at every call; this asks the same questions of a model at rest, about
all that its instances say, so that `prepare` and `report` can tell. What only a call has (dtypes of
its inputs, gradients, autocast) is left to it. Knows no single op and no model.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import nn

from tfrewrite import activations, guards, in_force, kernels, ops, rules

_ROWS = 24  # a summary fits a screen
_UNKNOWN = object()  # the call decides
_SIMPLE = (ast.Attribute, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp)
_PARTS = (*_SIMPLE, ast.operator, ast.unaryop, ast.expr_context)


@dataclass(frozen=True)
class Decision:
    """One call of an op in one instance."""

    path: str  # of the instance; "" for the model itself
    kind: str  # its class
    op: str  # "act_mul/two_inputs": the op and the reference that the call selects
    facts: str  # what it takes from the instance: "weight 64, eps 1e-06"
    reason: str  # why the reference runs; "": the kernel does

    @property
    def kernel(self) -> bool:
        return not self.reason


def survey(path: str, module: nn.Module, calls: Sequence[tuple[FunctionType, in_force.Call]]):
    """The decisions of one instance, one for each different call."""
    made = (_decide(path, module, function, call) for function, call in calls)
    return list(dict.fromkeys(d for d in made if d is not None))


def lines(decisions: Sequence[Decision]) -> Iterator[str]:
    """Equal decisions of a class as one line each, with the path of the first."""
    rows = Counter((d.kind, d.op, d.facts, d.reason) for d in decisions)
    first = {(d.kind, d.op, d.facts, d.reason): d.path for d in reversed(decisions)}
    for row in list(rows)[:_ROWS]:
        kind, op, facts, reason = row
        what = f"no kernel: {reason} (first: {first[row] or 'the model'})" if reason else "kernel"
        yield f"  {kind} x{rows[row]}: {op}{f' ({facts})' if facts else ''}: {what}"
    if len(rows) > _ROWS:
        yield f"  and {len(rows) - _ROWS} more kinds of calls"


def why_called(module: nn.Module) -> str:
    """Why calling this module is more than its class's forward; "": it is not."""
    if hasattr(module, "_hf_hook"):
        return "has an accelerate hook"
    if "forward" in vars(module):
        return "has a forward of its own"
    for attribute, what in in_force.HOOKS.items():
        if getattr(module, attribute, None):
            return f"has {what}"
    if module._compiled_call_impl is not None:
        return "is compiled by itself"
    return ""


def _decide(
    path: str, module: nn.Module, function: FunctionType, call: in_force.Call
) -> Decision | None:
    variant = _variant(call)
    if variant is None or variant.at_least is not None:  # those are packing's
        return None
    facts, reasons, norms = [], [_why_no_kernel(call.op, variant)], set()
    if "forward" in vars(module) and function.__name__ == "forward":
        reasons.append("its forward was replaced on the instance")
    written = dict(zip(variant.positional, call.args))
    written |= {variant.named[k]: v for k, v in call.keywords.items() if k in variant.named}
    for name, kind in variant.kinds.items():
        node = written.get(name)
        value = _UNKNOWN if node is None else _value(node, module, function, call.owner)
        if value is not _UNKNOWN:
            fact, why = _look(kind, value)
            shown = ast.unparse(node).removeprefix(f"{call.owner}.")
            facts += [f"{shown} {fact}"] if fact and not isinstance(node, ast.Constant) else []
            reasons += [f"{shown} {why}"] if why else []
            norms |= {fact.split()[0]} if kind is rules.Norm and not why else set()
    if len(norms) > 1:
        reasons.append(f"norms that round differently: {', '.join(sorted(norms))}")
    for guard in ("via", "inner"):
        if guard in call.keywords:
            reasons.append(_why_replaced(call.keywords[guard], module, function, call.owner))
    reason = next(filter(None, reasons), "")
    name = f"{call.op}/{variant.name}"
    return Decision(path, type(module).__name__, name, ", ".join(facts), reason)


def _variant(call: in_force.Call) -> rules.Variant | None:
    """The reference that a call selects, as the op's function does (ops.py)."""
    op = rules.load().get(call.op)
    given = {k: v for k, v in call.keywords.items() if k not in ("via", "inner")}
    for variant in ops._most_special_first(op.variants) if op else ():
        literals = {k: getattr(given.get(k), "value", _UNKNOWN) for k in variant.literals}
        if (
            (len(call.args) == len(variant.positional) or variant.at_least is not None)
            and literals == variant.literals
            and given.keys() == {*variant.literals, *variant.named}
            and all(
                getattr(a, "value", _UNKNOWN) == p.value
                for a, p in zip(call.args, variant.positional)
                if isinstance(p, ast.Constant)
            )
        ):
            return variant
    return None


def _why_no_kernel(op: str, variant: rules.Variant) -> str:
    if variant.kernel is None:
        return "there is none of this reference"
    if ops._mode(op) != "auto" or kernels.get(op, variant.name) is None:
        return "kernels are off or not loaded"
    return ""


def _value(node: ast.expr, module: nn.Module, function: FunctionType, owner: str) -> Any:
    """What an argument is before any call: attributes of the instance, names of the file."""
    parts = list(ast.walk(node))
    names = {n.id for n in parts if isinstance(n, ast.Name)}
    local = {*function.__code__.co_varnames, *function.__code__.co_cellvars} - {owner}
    if not all(isinstance(n, _PARTS) for n in parts) or names & local:
        return _UNKNOWN
    try:
        code = compile(ast.Expression(node), "<an argument>", "eval")
        return eval(code, function.__globals__, {owner: module})
    except Exception:  # made by the first call, or a name of another function
        return _UNKNOWN


def _look(kind: type, value: Any) -> tuple[str, str]:
    """What an argument of that annotation is, and why no kernel takes it."""
    type_name = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind in (rules.Norm, rules.LayerNorm):
        return _look_at_norm(kind, value, type_name)
    if kind is rules.Act:
        number = activations.number(value)
        if number is not None:
            return activations.ACTS[number], ""
        if isinstance(value, nn.Module) and (why := _why_not_plain(value)):
            return "", why
        shown = getattr(value, "__name__", None) or f"a {type_name}"
        return "", f"is {shown}, no activation that kernels know"
    if kind is rules.Linear:
        if guards.linears((value,)) is not None:
            fact, why = _look_at_tensor(value.weight, type_name)
            return fact, f"has a weight that {why}" if why else ""
        plain = type(value) is nn.Linear
        return "", _why_not_plain(value) or "has no weight" if plain else f"is a {type_name}"
    if kind is rules.Scalar:
        return repr(value), "" if type(value) is float else f"is a {type_name}, not a float"
    if kind in (rules.Int, rules.Const):
        return repr(value), "" if isinstance(value, int) else f"is a {type_name}, not an int"
    return _look_at_tensor(value, type_name)


def _why_not_plain(module: nn.Module) -> str:
    """As `why_called`, what holds for all modules included."""
    return why_called(module) or ("" if guards.plain(module) else "is called with global hooks")


def _look_at_tensor(value: Any, type_name: str) -> tuple[str, str]:
    if value is None:
        return "None", ""
    if not isinstance(value, torch.Tensor):
        return "", f"is a {type_name}"
    fact = " x ".join(map(str, value.shape))
    with torch.no_grad():
        if guards._plain_tensors((value,)):
            return fact, ""
    if type(value) not in guards._PLAIN:
        return fact, f"is a {type_name}"
    return fact, f"is {value.dtype} on {value.device}, not what kernels take"


def _look_at_norm(kind: type, value: Any, type_name: str) -> tuple[str, str]:
    if not isinstance(value, nn.Module):
        return "", f"is a {type_name}"
    parts = guards.layer_norm(value) if kind is rules.LayerNorm else guards.norm(value)
    if parts is None:
        other = "no plain LayerNorm of one dimension" if kind is rules.LayerNorm else ""
        other = other or "whose forward is not one rms_norm call with a weight and a float eps"
        return "", _why_not_plain(value) or f"is a {type_name}, {other}"
    if kind is rules.LayerNorm:
        weight, _, eps, _ = parts
        first = f"{value.normalized_shape[0]}"
    else:
        weight, eps, number = parts
        first = rules.load()["rms_norm"].variants[number].name
        first += f" {weight.shape[-1]}" if weight is not None else ""
    _, why = _look_at_tensor(weight, type_name)
    return f"{first} eps {eps}", f"has a weight that {why}" if why else ""


def _why_replaced(node: ast.expr, module: nn.Module, function: FunctionType, owner: str) -> str:
    """Why the helper that a call names is not the one of its file; "": it is, or a call decides."""
    helper = node.elts[0] if isinstance(node, ast.Tuple) else node
    names, file = function.__globals__, function.__code__.co_filename
    text = ast.unparse(helper)
    if isinstance(helper, ast.Attribute):
        method = guards._attribute(helper, owner)
        known = method is None or guards._method_in_force(module, method, function)
    else:
        value = names.get(text)
        known = (
            not isinstance(helper, ast.Name)
            or text in function.__code__.co_varnames
            or guards._known_as(text, value, names, file)
            and guards._helpers_pristine(value.__code__, value.__globals__)
        )
    return "" if known else f"{text} was replaced"
