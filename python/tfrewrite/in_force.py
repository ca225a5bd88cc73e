"""What the functions that are in force call: which ops, and with which arguments.

Read from bytecode and source of the functions themselves, so a replaced forward is seen and a
rewritten file needs no hook. Knows no single op and no model.
"""

from __future__ import annotations

import ast
import copy
import dis
import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from tfrewrite import ops, rules

HOOKS = {  # the attributes of nn.Module whose entries a call runs
    "_forward_pre_hooks": "a forward pre-hook",
    "_forward_hooks": "a forward hook",
    "_backward_pre_hooks": "a backward pre-hook",
    "_backward_hooks": "a backward hook",
}


@dataclass(frozen=True)
class Member:
    """A module of a call: `self.a`, or `self.a if test else None`."""

    name: str  # the attribute of self, dotted where deeper
    tests: tuple[tuple[str, bool], ...] = ()  # expressions of `self`, and what they must come to

    def missing_in(self, instance: Any) -> str:
        """Why the call takes no module here, as far as the instance alone decides; "": it may."""
        for text, when in self.tests:
            try:
                value = eval(text, {}, {"self": instance})
                if bool(value) != when:
                    return f"{self.name} is not called: {text} is {value!r:.40}"
            except Exception:  # what it asks for is made by the first call
                continue
        module = instance
        for part in self.name.split("."):
            module = getattr(module, part, None)
        return f"{self.name} is None" if module is None else ""


@dataclass(frozen=True, eq=False)
class Call:
    """A call of an op, as its text says it."""

    op: str
    owner: str  # the name of the calling function's first parameter: self, in a method
    args: tuple[ast.expr, ...]
    keywords: dict[str, ast.expr]


Siblings = tuple[tuple[Member, ...], ...]  # per call
_calls: WeakKeyDictionary[FunctionType, tuple[CodeType, tuple[Call, ...]]] = WeakKeyDictionary()


def functions(value: Any) -> Iterator[FunctionType]:
    """A function, decorators seen through: what it wraps, or what its closure holds."""
    todo, seen = [value], set()
    while todo:
        value = todo.pop()
        value = getattr(value, "__func__", value)  # a classmethod, staticmethod or bound method
        if not isinstance(value, FunctionType) or id(value) in seen:
            continue
        seen.add(id(value))
        if hasattr(value, "__wrapped__"):
            todo.append(value.__wrapped__)
            continue
        yield value
        for cell in value.__closure__ or ():
            try:
                todo.append(cell.cell_contents)
            except ValueError:  # not filled yet
                pass


def ops_in(value: Any) -> Counter[str]:
    """The op calls in a function's bytecode, decorators seen through: op -> how many."""
    found: Counter[str] = Counter()
    for function in functions(value):
        if names := _aliases(function):
            found.update(_op_names(function.__code__, names))
    return found


def methods(kind: type) -> Iterator[Any]:
    """What a class's methods are, overridden ones included that are called through super()."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if base in (nn.Module, object):
            continue
        for name, value in list(vars(base).items()):
            if name not in seen and (found := list(functions(value))):
                yield value
                if not any("super" in f.__code__.co_names for f in found):
                    seen.add(name)


def calls_in(function: FunctionType) -> tuple[Call, ...]:
    """The op calls of a method, from its source. Raises OSError where that is not to be had."""
    aliases, code = _aliases(function), function.__code__
    if not aliases or not code.co_argcount:
        return ()
    read = _calls.get(function)
    if read is None or read[0] is not code:
        read = _calls[function] = (code, tuple(_read_calls(function, aliases)))
    return read[1]


def siblings_in(value: Any) -> Siblings:
    """The modules of each call of an op on siblings, `tfr.linears(x, self.a, self.b)`.

    Raises OSError where the source of a function with such a call is not to be had.
    """
    found: list[tuple[Member, ...]] = []
    known = _sibling_ops()
    for function in functions(value):
        if not known.keys() & _names(function.__code__):
            continue
        for call in calls_in(function):
            if call.op in known:
                modules = [_member(a, call.owner) for a in call.args[known[call.op] :]]
                if len(modules) > 1 and None not in modules:
                    found.append(tuple(filter(None, modules)))
    return tuple(dict.fromkeys(found))


def _sibling_ops() -> dict[str, int]:
    """Ops on siblings -> how many arguments come before the modules."""
    return {
        name: len(variant.positional)
        for name, op in rules.load().items()
        for variant in op.variants
        if variant.at_least is not None
    }


def _codes(code: CodeType) -> Iterator[CodeType]:
    todo = [code]
    while todo:
        code = todo.pop()
        todo += [c for c in code.co_consts if isinstance(c, CodeType)]
        yield code


def _aliases(function: FunctionType) -> set[str]:
    """The names by which a function calls tfrewrite.ops."""
    return {n for n in _names(function.__code__) if function.__globals__.get(n) is ops}


def _names(code: CodeType) -> set[str]:
    """The globals and attributes that a function mentions."""
    return {name for inner in _codes(code) for name in inner.co_names}


def _op_names(code: CodeType, aliases: set[str]) -> Iterator[str]:
    for inner in _codes(code):
        last = None
        for instruction in dis.get_instructions(inner):
            if last in aliases and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                yield instruction.argval
            last = instruction.argval if instruction.opname == "LOAD_GLOBAL" else None


def _read_calls(function: FunctionType, aliases: set[str]) -> Iterator[Call]:
    code = function.__code__
    source = inspect.getsource(code)
    try:
        tree = ast.parse(f"if 1:\n{source}" if source[:1].isspace() else source)
    except SyntaxError as error:  # the file is another one by now
        raise OSError(f"the source of {function.__qualname__} does not parse") from error
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in aliases
        ):
            keywords = {k.arg: k.value for k in node.keywords if k.arg}
            yield Call(node.func.attr, code.co_varnames[0], tuple(node.args), keywords)


def _member(node: ast.expr, owner: str) -> Member | None:
    tests, node = [], copy.deepcopy(node)
    while isinstance(node, ast.IfExp):
        when = not (isinstance(node.body, ast.Constant) and node.body.value is None)
        names = [n for n in ast.walk(node.test) if isinstance(n, ast.Name)]
        if all(n.id == owner for n in names):  # else the call decides, not the instance
            for name in names:
                name.id = "self"
            tests.append((ast.unparse(node.test), when))
        node = node.body if when else node.orelse
    name = _of_self(node, owner)
    return Member(name, tuple(tests)) if name else None


def _of_self(node: ast.expr, owner: str) -> str | None:
    """`self.a.b` -> "a.b"."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if names and isinstance(node, ast.Name) and node.id == owner:
        return ".".join(reversed(names))
    return None
