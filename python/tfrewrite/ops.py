"""The ops that rewritten files call: `from tfrewrite import ops as tfr`, then `tfr.rms_norm(...)`.

One function per op is written out from its rules: it looks at the number of arguments and at the
literal keywords, and calls the reference that they select. Kernels come in at that same place,
behind the same checks.

What is called is what the user has installed at that moment. Modules are called as modules, so
hooks, adapters, quantized and subclassed ones, parametrizations and a replaced `forward` keep
working. A helper given as `via=` is called itself once somebody has put another function in its
place, and always under torch.compile, where Dynamo looks through it and watches the name by itself.

Environment: TFR_OPS=ref (default), off (a helper is always called), or per op,
`rope:off,act_mul:off`.
"""

from __future__ import annotations

import builtins
import dis
import linecache
import os
import sys
import threading
from ast import Call, Constant, Name, NodeTransformer, keyword, parse, unparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from tfrewrite import rules as _rules

_ABSENT = "\0absent"  # a string, so that comparing it with any literal is cheap and plain to Dynamo
_compiling = torch.compiler.is_compiling
_lock = threading.RLock()
_installed: dict[str, _rules.Op] = {}
_recording: list[Counter[tuple[str, str, str]]] = []


# ------------------------------------------------------------------ whose function is `via`?
def _pristine(via: Any, passed: tuple[str, ...] = (), **keywords: Any) -> bool:
    """Whether `via` is the function that the caller's own file defines under the name used there.

    The caller is two frames up: the function that called the op. Replaced functions of every kind
    have another file (a monkeypatch, an exec into the module), another type (a kernel object), or
    another name (a swap within the file). A method is one of the caller's file that the caller
    names. `keywords` are what the op was given; those that the source does not pass on itself
    (`passed`) must still be the helper's defaults.
    """
    frame = sys._getframe(2)
    code, names = frame.f_code, frame.f_globals
    if type(via) is MethodType:
        function = via.__func__
        return (
            _defined_in(function, names, code.co_filename)
            and function.__name__ in code.co_names
            and _helpers_pristine(function.__code__, names)
        )
    if not _defined_in(via, names, code.co_filename) or names.get(via.__name__) is not via:
        return False
    for name in _global_names(code):
        if names.get(name) is via and name != via.__name__:
            return False
    own = via.__code__.co_varnames[: via.__code__.co_argcount + via.__code__.co_kwonlyargcount]
    for name, value in keywords.items():
        if name not in passed and name in own and not _leaves_to_default(via, name, value):
            return False
    return _helpers_pristine(via.__code__, names)


def _defined_in(function: Any, names: dict[str, Any], filename: str) -> bool:
    return (
        type(function) is FunctionType
        and function.__globals__ is names
        and function.__code__.co_filename == filename
        and function.__code__.co_name == function.__name__  # not another function's __code__
    )


def _helpers_pristine(code: CodeType, names: dict[str, Any]) -> bool:
    """The same for what a helper calls: rotate_half may be replaced on its own."""
    todo, seen = [code], {id(code)}
    while todo:
        for name in _global_names(todo.pop()):
            value = names.get(name)
            if not callable(value):  # a module or a constant
                continue
            if not _defined_in(value, names, code.co_filename) or value.__name__ != name:
                return False
            if id(value.__code__) not in seen:
                seen.add(id(value.__code__))
                todo.append(value.__code__)
    return True


# By id, since hashing a code object reads all of it. The object is kept, so its id stays its own.
_names_of: dict[int, tuple[CodeType, tuple[str, ...]]] = {}


def _global_names(code: CodeType) -> tuple[str, ...]:
    """The module's names that a function reads, its lambdas and comprehensions included."""
    known = _names_of.get(id(code))
    if known is None:
        todo, names = [code], set()
        while todo:
            inner = todo.pop()
            loads = (i for i in dis.get_instructions(inner) if i.opname == "LOAD_GLOBAL")
            names |= {i.argval for i in loads if not hasattr(builtins, i.argval)}
            todo += [c for c in inner.co_consts if isinstance(c, CodeType)]
        known = _names_of[id(code)] = (code, tuple(sorted(names)))
    return known[1]


def _leaves_to_default(via: FunctionType, name: str, value: Any) -> bool:
    """Whether a call of `via` that does not give `name` means `value`."""
    code, defaults = via.__code__, via.__defaults__ or ()
    if name in (via.__kwdefaults__ or ()):
        return via.__kwdefaults__[name] == value
    position = code.co_varnames[: code.co_argcount].index(name) - code.co_argcount
    return -position <= len(defaults) and defaults[position] == value


def _of(passed: tuple[str, ...], **keywords: Any) -> dict[str, Any]:
    return {name: keywords[name] for name in passed}


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
    if note:
        yield f"_note({op!r}, {variant.name!r}, 'reference')"
    yield f"return _{op}_{variant.name}({_passed(variant)})"


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
    signature = ", ".join(["*args", *(f"{k}=_ABSENT" for k in keywords), "via=None", "**unknown"])
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


def _write(op: _rules.Op, note: bool) -> FunctionType:
    """The op's function. Its globals are this module's: Dynamo looks names up in a real module."""
    source = _source(op, _mode(op.name), note)
    filename = f"<tfrewrite.ops.{op.name}{' recording' if note else ''}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    globals().update({f"_{op.name}_{v.name}": v.function for v in op.variants})
    made: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), globals(), made)
    function = made[op.name]
    function.__doc__ = "\n".join([op.schema, "", *(f"tfr.{v.call}" for v in op.variants)])
    return function


def _mode(op: str) -> str:
    if os.environ.get("TFR_DISABLE", "") not in ("", "0"):
        return "off"
    mode = "ref"
    for part in filter(None, os.environ.get("TFR_OPS", "ref").split(",")):
        name, _, how = part.rpartition(":")
        if how not in ("ref", "off"):
            raise ValueError(f"TFR_OPS={os.environ['TFR_OPS']!r}: {how!r} is neither ref nor off")
        if name in ("", op):
            mode = how
    return mode


def install(ops: dict[str, _rules.Op]) -> None:
    """Makes every op an attribute of this module. Called when rule files have been loaded."""
    with _lock:
        for op in ops.values():
            if op.name in _own_names:
                raise _rules.RuleError(f"{op.module}: tfrewrite.ops uses the name {op.name} itself")
        _installed.update(ops)
        for op in ops.values():
            if op.variants:
                globals()[op.name] = _write(op, note=bool(_recording))


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

    The path is "reference" or "helper". The ops are replaced by counting ones while it is active,
    so it costs nothing at other times.
    """
    counter: Counter[tuple[str, str, str]] = Counter()
    with _lock:
        _recording.append(counter)
        if len(_recording) == 1:
            install(_installed)
    try:
        yield counter
    finally:
        with _lock:
            _recording[:] = [c for c in _recording if c is not counter]
            if not _recording:
                install(_installed)


_own_names = frozenset(globals()) | {"_own_names"}
install(_rules.load())
