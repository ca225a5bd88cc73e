"""The ops that rewritten files call: `from tfrewrite import ops as tfr`, then `tfr.rms_norm(...)`.

One function per op is written out from its rules: it looks at the number of arguments and at the
literal keywords, which select a reference, and calls that reference's kernel where it has one and
guards.py finds that the kernel computes the same, else the reference itself.

What is called is what the user has installed at that moment. Modules with hooks, adapters,
quantized and subclassed ones, parametrizations and a replaced `forward` are called as modules. A
helper given as `via=` is called itself once somebody has put another function in its place, and
always under torch.compile, where Dynamo looks through it and watches the name by itself.

Environment: TFR_OPS=auto (default), ref (no kernels), off (no kernels, and a helper is always
called), or per op, `rope:off,act_mul:ref`. TFR_FORCE=op:reference is as TFR_OPS=op:ref.
"""

from __future__ import annotations

import linecache
import os
import threading
from ast import Call, Constant, Name, NodeTransformer, keyword, parse, unparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

from tfrewrite import activations as _activations
from tfrewrite import guards as _guards
from tfrewrite import kernels as _kernels
from tfrewrite import rules as _rules

_ABSENT = "\0absent"  # a string, so that comparing it with any literal is cheap and plain to Dynamo
_compiling = torch.compiler.is_compiling
_pristine, _ready, _ready_in_graph = _guards.pristine, _guards.ready, _guards.ready_in_graph
_norm, _layer_norm, _linears = _guards.norm, _guards.layer_norm, _guards.linears
_act_number = _activations.number
_MAX_SIBLINGS = 8  # more modules than that in one call run one by one
_lock = threading.RLock()
_installed: dict[str, _rules.Op] = {}
_recording: list[Counter[tuple[str, str, str]]] = []
_written: dict[tuple[str, str, bool], FunctionType] = {}  # by op, mode, whether it counts


def _of(passed: tuple[str, ...], **keywords: Any) -> dict[str, Any]:
    return {name: keywords[name] for name in passed}


def _present(modules: tuple[Any, ...]) -> list[Any] | None:
    """The modules that are not None; None: all are."""
    present = [m for m in modules if m is not None]
    return present if len(present) < len(modules) else None


def _spread(modules: tuple[Any, ...], results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results in the places of their modules, None in the others."""
    spread, used = [], 0
    for module in modules:
        spread.append(None if module is None else results[used])
        used += module is not None
    return tuple(spread)


# ------------------------------------------------------------------ one function per op
class _AddKeywords(NodeTransformer):
    """`via(q, k)` -> `via(q, k, **_of(passed, unsqueeze_dim=dim))`."""

    def __init__(self, named: dict[str, str]) -> None:
        self.named = named

    def visit_Call(self, node: Call) -> Call:
        self.generic_visit(node)
        if isinstance(node.func, Name) and node.func.id == "via" and self.named:
            keywords = [keyword(k, Name(p)) for k, p in self.named.items()]
            node.keywords.append(keyword(None, Call(Name("_of"), [Name("passed")], keywords)))
        return node


def _conditions(variant: _rules.Variant, keywords: list[str]) -> list[str]:
    tests = []
    for i, value in enumerate(variant.positional):
        if isinstance(value, Constant):
            tests.append(f"args[{i}] {'is' if value.value is None else '=='} {value.value!r}")
    for name in keywords:
        if name in variant.named:
            tests.append(f"{name} != _ABSENT")
        elif name in variant.literals:
            tests.append(f"{name} == {variant.literals[name]!r}")
        else:
            tests.append(f"{name} == _ABSENT")
    return tests


def _branch(op: str, variant: _rules.Variant, how: str, note: bool) -> Iterator[str]:
    """The lines of one variant, behind its conditions."""
    fixed = list(variant.positional)
    if variant.at_least is None and fixed:
        yield f"({', '.join(p if isinstance(p, str) else '_' for p in fixed)},) = args"
    for name, parameter in variant.named.items():
        if name != parameter:
            yield f"{parameter} = {name}"
    fallback = unparse(_AddKeywords(variant.named).visit(parse(variant.fallback, mode="eval")))
    given = "".join(f", {k}={p}" for k, p in variant.named.items())
    check = f"_pristine(via, passed{given})" if given else "_pristine(via)"
    replaced = "" if how == "off" else f" and (_compiling() or not {check})"
    yield f"if via is not None{replaced}:"
    if note:
        yield f"    _note({op!r}, {variant.name!r}, 'helper')"
    yield f"    return {fallback}"
    if variant.inner:
        replaced = "" if how == "off" else " and (_compiling() or not _pristine(inner))"
        yield f"if inner is not None{replaced}:"
        if note:
            yield f"    _note({op!r}, {variant.name!r}, 'helper')"
        yield f"    return _{op}_{variant.name}_inner({_passed(variant)}, inner=inner)"
    if how == "auto":
        yield from _kernel_branch(op, variant, note)
    if variant.at_least is not None:  # a module that is None gives None
        size = len(variant.positional)
        yield f"if (present := _present(args[{size}:])) is not None:"
        yield f"    run = {op} if len(present) >= {variant.at_least} else _{op}_{variant.name}"
        yield f"    return _spread(args[{size}:], run(*args[:{size}], *present))"
    if note:
        yield f"_note({op!r}, {variant.name!r}, 'reference')"
    yield f"return _{op}_{variant.name}({_passed(variant)})"


def _kernel_branch(op: str, variant: _rules.Variant, note: bool) -> Iterator[str]:
    """The lines that call the kernel of a reference, when there is one and it may run."""
    if variant.at_least is not None:
        sizes = range(variant.at_least, _MAX_SIBLINGS + 1)
        if any(_kernels.get(op, f"m{n}") is None for n in sizes):
            return
        globals()[f"_kernel_{op}"] = {n: _kernels.get(op, f"m{n}") for n in sizes}
        tests = ["(p := _linears(args[1:])) is not None", "_ready_in_graph(args[0], *p)"]
        yield f"if count <= {_MAX_SIBLINGS + 1} and {' and '.join(tests)}:"
        yield from _kernel_call(op, variant, f"_kernel_{op}[count - 1](args[0], *p)", note, True)
        return
    kernel = _kernels.get(op, variant.name)
    if kernel is None:
        return
    globals()[f"_kernel_{op}_{variant.name}"] = kernel
    tests, tensors, arguments = _kernel_arguments(variant)
    in_graph = _rules.Linear in variant.kinds.values()
    if not in_graph:  # first of all: Dynamo cannot trace how a norm is read
        tests.insert(0, "not _compiling()")
    tests.append(f"{'_ready_in_graph' if in_graph else '_ready'}({', '.join(tensors)})")
    yield f"if {' and '.join(tests)}:"
    call = f"_kernel_{op}_{variant.name}({', '.join(arguments)})"
    yield from _kernel_call(op, variant, call, note, in_graph)


def _kernel_call(
    op: str, variant: _rules.Variant, call: str, note: bool, in_graph: bool
) -> Iterator[str]:
    # What the kernel refuses (shapes it does not know) the reference computes, or explains.
    if in_graph:
        yield "    if _compiling():"
        yield f"        return {call}"
    yield "    try:"
    yield f"        result = {call}"
    if note:
        yield f"        _note({op!r}, {variant.name!r}, _kernels.last_path())"
    yield "        return result"
    yield "    except RuntimeError as error:"
    yield f"        if not str(error).startswith('tfr::{op}.'):"
    yield "            raise"


def _kernel_arguments(variant: _rules.Variant) -> tuple[list[str], list[str], list[str]]:
    """The conditions of a kernel call, the tensors in it, and its arguments (kernels.reference)."""
    tests, tensors, arguments, norms = [], [], [], []
    for name, kind in variant.kinds.items():
        if kind is _rules.Norm:
            tests.append(f"({name}_parts := _norm({name})) is not None")
            tensors.append(f"{name}_parts[0]")
            arguments.append(f"*{name}_parts")
            norms.append(name)
        elif kind is _rules.LayerNorm:
            tests.append(f"({name}_parts := _layer_norm({name})) is not None")
            tensors += [f"{name}_parts[0]", f"{name}_parts[1]"]
            arguments.append(f"*{name}_parts")
        elif kind is _rules.Act:
            tests.append(f"({name}_number := _act_number({name})) is not None")
            arguments.append(f"{name}_number")
        elif kind is _rules.Linear:
            tests.append(f"({name}_parts := _linears(({name},))) is not None")
            tensors.append(f"*{name}_parts")
            arguments.append(f"*{name}_parts")
        elif kind is _rules.Scalar:
            tests.append(f"type({name}) is float")
            arguments.append(name)
        elif kind is _rules.Int:
            tests.append(f"isinstance({name}, int)")
            arguments.append(f"int({name})")
        elif kind is _rules.Const:
            tests.append(f"type({name}) is int")
            arguments.append(name)
        else:
            tensors.append(name)
            arguments.append(name)
    tests += [f"{norms[0]}_parts[2] == {other}_parts[2]" for other in norms[1:]]
    return tests, tensors, arguments


def _passed(variant: _rules.Variant) -> str:
    if variant.at_least is not None:
        return "*args"
    given = {*variant.positional, *variant.named.values()}
    passed, by_name = [], False
    for parameter in variant.parameters:
        if parameter in given:
            passed.append(f"{parameter}={parameter}" if by_name else parameter)
        by_name |= parameter not in given
    return ", ".join(passed)


def _source(op: _rules.Op, how: str, note: bool) -> str:
    keywords = op.keywords
    guards = ["via=None", *(["inner=None"] if any(v.inner for v in op.variants) else [])]
    signature = ", ".join(["*args", *(f"{k}=_ABSENT" for k in keywords), *guards, "**unknown"])
    lines = [f"def {op.name}({signature}):", "    count = len(args)"]
    if any(variant.named for variant in op.variants):  # via=(helper, "unsqueeze_dim")
        lines += [
            "    passed = ()",
            "    if type(via) is tuple:",
            "        passed, via = via[1:], via[0]",
        ]
    for variant in _most_special_first(op.variants):
        size = len(variant.positional)
        if variant.at_least is None:
            tests = [f"count == {size}"]
        else:
            tests = [f"count >= {size + variant.at_least}"]
        tests += [*_conditions(variant, keywords), "not unknown"]
        if len(guards) > 1 and not variant.inner:
            tests.append("inner is None")
        lines.append(f"    if {' and '.join(tests)}:")
        lines += [f"        {line}" for line in _branch(op.name, variant, how, note)]
    shown = ", ".join([repr(op.name), "count", "unknown", *(f"{k}={k}" for k in keywords)])
    lines.append(f"    raise _no_variant({shown})")
    return "\n".join(lines) + "\n"


def _no_variant(op: str, count: int, unknown: dict[str, Any], **keywords: Any) -> TypeError:
    given = {k: v for k, v in (keywords | unknown).items() if not (type(v) is str and v == _ABSENT)}
    got = ", ".join([f"{count} arguments", *(f"{k}={v!r}" for k, v in given.items())])
    calls = "\n".join(f"  tfr.{v.call}" for v in _installed[op].variants)
    return TypeError(f"tfr.{op}: no variant takes {got}. Its calls are\n{calls}")


def _most_special_first(variants: list[_rules.Variant]) -> list[_rules.Variant]:
    """`op(None, x)` before `op(act, x)`, which would take the None too."""
    return sorted(variants, key=lambda v: -sum(isinstance(p, Constant) for p in v.positional))


def _write(op: _rules.Op, how: str, note: bool) -> FunctionType:
    """The op's function. Its globals are this module's: Dynamo looks names up in a real module."""
    source = _source(op, how, note)
    filename = f"<tfrewrite.ops.{op.name}{' recording' if note else ''}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    globals().update({f"_{op.name}_{v.name}": v.function for v in op.variants})
    globals().update({f"_{op.name}_{v.name}_inner": v.inner for v in op.variants if v.inner})
    made: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), globals(), made)
    function = made[op.name]
    function.__doc__ = "\n".join([op.schema, "", *(f"tfr.{v.call}" for v in op.variants)])
    return function


def _mode(op: str) -> str:
    if os.environ.get("TFR_DISABLE", "") not in ("", "0"):
        return "off"
    mode = "auto"
    for part in filter(None, os.environ.get("TFR_OPS", "auto").split(",")):
        name, _, how = part.rpartition(":")
        if how not in ("auto", "ref", "off"):
            text = os.environ["TFR_OPS"]
            raise ValueError(f"TFR_OPS={text!r}: {how!r} is neither auto, ref nor off")
        if name in ("", op):
            mode = how
    forced = os.environ.get("TFR_FORCE", "").split(",")
    return "ref" if f"{op}:reference" in forced and mode == "auto" else mode


def install(ops: dict[str, _rules.Op]) -> None:
    """Makes every op an attribute of this module. Called when rule files have been loaded."""
    with _lock:
        for op in ops.values():
            if op.name in _own_names:
                raise _rules.RuleError(f"{op.module}: tfrewrite.ops uses the name {op.name} itself")
        _installed.update(ops)
        _written.clear()
        _show(ops)


def _show(ops: dict[str, _rules.Op]) -> None:
    """The ops as the environment wants them now. record() comes here twice; they are kept for it."""
    if any(op.cpu and _mode(op.name) == "auto" for op in ops.values()):
        _kernels.install(ops)
    for op in ops.values():
        if op.variants:
            key = op.name, _mode(op.name), bool(_recording)
            if key not in _written:
                _written[key] = _write(op, *key[1:])
            globals()[op.name] = _written[key]


def names() -> set[str]:
    """The ops that there are."""
    return {op.name for op in _installed.values() if op.variants}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    known = ", ".join(sorted(_installed))
    raise AttributeError(
        f"tfrewrite has no op {name!r} (known: {known}). An op of your own needs its rule file: "
        "set TFR_RULES or call tfrewrite.rules.add(directory)"
    )


# ------------------------------------------------------------------ which path ran
def _note(op: str, variant: str, path: str) -> None:
    if not torch.compiler.is_compiling():  # a count inside a graph would be a side effect of it
        for counter in _recording:
            counter[op, variant, path] += 1


@contextmanager
def record() -> Iterator[Counter[tuple[str, str, str]]]:
    """Counts calls outside compiled graphs as (op, variant, path).

    The path is "reference", "helper", or the kernel's: "jit", "generic" or "torch". The ops are replaced by counting ones while it is active,
    so it costs nothing at other times.
    """
    counter: Counter[tuple[str, str, str]] = Counter()
    with _lock:
        _recording.append(counter)
        if len(_recording) == 1:
            _show(_installed)
    try:
        yield counter
    finally:
        with _lock:
            _recording[:] = [c for c in _recording if c is not counter]
            if not _recording:
                _show(_installed)


_own_names = frozenset(globals()) | {"_own_names"}
install(_rules.load())
