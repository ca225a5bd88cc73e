"""Rule files, loaded as the submodules of `tfrewrite.rules`, and the names that they import.

A rule file is executable Python (docs/ADD_AN_OP.md). Running it fills the registry below with the
op's schema and references; `tfrewrite.ops` turns those into callables. This module must not know
any single op.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = [
    "Act",
    "Const",
    "Int",
    "LayerNorm",
    "Linear",
    "Norm",
    "Op",
    "Param",
    "RuleError",
    "Scalar",
    "Tensor",
    "Variant",
    "add",
    "load",
    "op",
    "ref",
    "refuse",
    "siblings",
]


class RuleError(Exception):
    """A rule file that cannot be used; the message names the file and the reference."""


class _Kind:
    """An annotation of a rule's parameter: what the user's expression must be."""

    def __class_getitem__(cls, _: Any) -> type[_Kind]:
        return cls


class Tensor(_Kind):
    """Any value not proven to be a number, tuple or string."""


class Param(_Kind):
    """An attribute of self that holds a tensor."""


class Scalar(_Kind):
    """A number: an attribute of self, a parameter, a literal."""


class Int(_Kind):
    """A whole number or a truth value: an attribute of self, a parameter, a literal."""


class Const(_Kind):
    """A literal int, float, bool or string."""


class Linear(_Kind):
    """An attribute of self that `__init__` makes an nn.Linear."""


class LayerNorm(_Kind):
    """An attribute of self that `__init__` makes an nn.LayerNorm."""


class Norm(_Kind):
    """An attribute of self whose class, in this file, has a forward that is one rms_norm."""


class Act(_Kind):
    """An activation: ACT2FN[...], an nn activation module or a function."""


@dataclass(frozen=True)
class Variant:
    """One reference function and the call that selects it."""

    name: str
    call: str  # the CALL text, for messages
    function: Callable[..., Any]
    parameters: tuple[str, ...]  # of `function`, in order
    positional: tuple[
        str | ast.Constant, ...
    ]  # a parameter's name, or a literal that is written there
    literals: dict[str, Any]  # keyword -> the literal that selects this variant
    named: dict[str, str]  # keyword -> the parameter that takes its value
    fallback: str  # an expression over the parameters and `via`: the helper call this op stands for
    at_least: int | None = None  # siblings: how many modules at least; None: a plain call
    target: str = "auto"
    kernel: str | None = None  # what its kernel is specialised for; None: it has no kernel
    inner: Callable[..., Any] | None = None  # the reference, given a helper of it as `inner`

    @property
    def kinds(self) -> dict[str, type]:
        """Each parameter's annotation, in order."""
        return {name: self.function.__annotations__[name] for name in self.parameters}


@dataclass
class Op:
    name: str
    module: str  # of the rule file that has its schema
    schema: str = ""
    variants: list[Variant] = field(default_factory=list)
    cpu: str | None = None  # the kernel template for the host
    cuda: str | None = None  # the kernel template for CUDA

    @property
    def siblings(self) -> Variant | None:
        """The reference for any number of modules, if the op has one."""
        return next((v for v in self.variants if v.at_least is not None), None)

    @property
    def declared(self) -> set[str]:
        """The keywords of the schema."""
        match = re.search(r"\*\s*,([^)]*)\)", self.schema)
        return set(re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", match[1])) if match else set()

    @property
    def keywords(self) -> list[str]:
        """Every keyword that a call may carry, in the order first seen."""
        return list(dict.fromkeys(k for v in self.variants for k in (*v.literals, *v.named)))


_HERE = Path(__file__).resolve().parent
_BUILT_IN = _HERE / "rules_data"  # in a wheel
if not _BUILT_IN.is_dir():
    _BUILT_IN = _HERE.parents[1] / "rewriter" / "rules"  # in a checkout

__path__ = [str(_BUILT_IN)]  # makes `from tfrewrite.rules.rope import rotate_half` work
_ops: dict[str, Op] = {}
_loaded: set[str] = set()  # directories
_lock = (
    threading.RLock()
)  # of loading; never taken by what a rule file runs: its import lock is held then


# ------------------------------------------------------------------ what rule files call
def op(schema: str, *, cpu: str | None = None, cuda: str | None = None, **_more: Any) -> None:
    """Names the op of this rule file: `name(Type arg, ..., *, type literal) -> Type`.

    `cpu` and `cuda` are the files of its kernel templates; the C program reads those and
    `specialize` itself.
    """
    match = re.match(r"\s*([A-Za-z_]\w*)\s*\(", schema)
    module = sys._getframe(1).f_globals.get("__name__", "?")
    if match is None:
        raise RuleError(f"{_file(module)}: op(): {schema!r} is not `name(arguments) -> result`")
    known = _ops.get(match[1])
    if known is not None and known.module != module:
        raise RuleError(f"{_file(module)}: op {match[1]} is already in {_file(known.module)}")
    _ops[match[1]] = Op(match[1], module, schema, cpu=cpu, cuda=cuda)


def ref(
    call: str,
    *,
    target: str = "auto",
    fallback: str | None = None,
    inner: str | None = None,
    kernel: str | None = None,
    **_more: Any,
):
    """Declares the decorated function as the reference behind the call text `call`.

    `fallback` is evaluated in place of the reference when the helper that the call was seen through
    has been replaced: an expression over the function's parameters and `via`, the helper. Without
    it the helper gets the call's positional arguments. Keywords of `call` that carry a parameter
    (`dim=dim`) are added to the helper's call when its signature has them. `inner` names a helper
    of this file that the reference calls: user code with a function of its own for that part alone
    is called with it as `inner=`, and the reference runs with that function once it has been
    replaced. `kernel` gives the options under which the op's template computes this function;
    without it there is no kernel.
    """
    return _register(call, target=target, fallback=fallback, inner=inner, kernel=kernel)


def siblings(
    call: str,
    *,
    at_least: int = 2,
    target: str = "auto",
    kernel: str | None = None,
    **_more: Any,
):
    """As `ref`, for `op(x, *modules)`: any number of modules, at least `at_least`, on one value."""
    return _register(call, target=target, at_least=at_least, kernel=kernel)


def refuse(reason: str, **_more: Any):
    """Marks a computation that is recognised and left alone; `reason` is what the report says."""
    return lambda function: function


def _register(call: str, **how: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        where = f"{_file(function.__module__)}: {function.__name__}"
        name, variant = _variant(call, function, where, **how)
        owner = _ops.get(name)
        if owner is None:
            raise RuleError(f"{where}: {call!r}: no op('{name}(...)') before it")
        _check(owner, variant, where)
        owner.variants.append(variant)
        return function

    return decorate


def _file(module: str) -> str:
    return getattr(sys.modules.get(module), "__file__", None) or module


# ------------------------------------------------------------------ reading a CALL
def _variant(
    call: str,
    function: Callable[..., Any],
    where: str,
    target: str,
    fallback: str | None = None,
    at_least: int | None = None,
    kernel: str | None = None,
    inner: str | None = None,
) -> tuple[str, Variant]:
    def fail(what: str) -> RuleError:
        return RuleError(f"{where}: {call!r}: {what}")

    try:
        tree = ast.parse(call, mode="eval").body
    except SyntaxError as error:
        raise fail(f"not Python ({error.msg})") from None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise fail("not a call such as op(x, y, key='literal')")
    code = function.__code__
    if taken := {"args", "count", "unknown", "via", "inner"} & set(
        code.co_varnames[: code.co_argcount]
    ):
        raise fail(f"{function.__name__} cannot have a parameter called {min(taken)}")
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    rest = code.co_varnames[len(parameters)] if code.co_flags & 0x04 else None  # the name behind *

    positional: list[str | ast.Constant] = []
    for node in tree.args:
        if (
            isinstance(node, ast.Starred)
            and isinstance(node.value, ast.Name)
            and node.value.id == rest
        ):
            if at_least is None or node is not tree.args[-1]:
                raise fail(f"*{rest} must be the last argument, of a @siblings call")
        elif isinstance(node, ast.Name) and node.id in parameters:
            positional.append(node.id)
        elif isinstance(node, ast.Constant):
            positional.append(node)
        else:
            raise fail(
                f"{ast.unparse(node)} is neither a parameter of {function.__name__} nor a literal"
            )
    literals: dict[str, Any] = {}
    named: dict[str, str] = {}
    for keyword in tree.keywords:
        if keyword.arg in (None, "via", "inner"):
            raise fail("**, via= and inner= cannot be written in a CALL")
        if isinstance(keyword.value, ast.Name) and keyword.value.id in parameters:
            named[keyword.arg] = keyword.value.id
            continue
        try:
            literals[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            raise fail(f"{keyword.arg}= is neither a parameter nor a literal") from None

    given = [p for p in positional if isinstance(p, str)] + list(named.values())
    needed = parameters[: len(parameters) - len(function.__defaults__ or ())]
    if missing := [p for p in needed if p not in given]:
        raise fail(f"does not give {', '.join(missing)}")
    if fallback is None:
        shown = [p if isinstance(p, str) else repr(p.value) for p in positional]
        fallback = f"via({', '.join(shown)})" if at_least is None else "via(*args)"
    else:
        _check_fallback(fallback, {*given, "via", "torch"}, fail)
    return tree.func.id, Variant(
        function.__name__,
        call,
        function,
        parameters,
        tuple(positional),
        literals,
        named,
        fallback,
        at_least,
        target,
        kernel,
        _with_inner(function, inner, fail) if inner else None,
    )


def _with_inner(
    function: Callable[..., Any], helper: str, fail: Callable[[str], RuleError]
) -> Callable[..., Any]:
    """The function with one parameter more, `inner`, that it calls where it called `helper`.

    Made from its text, in its own module, so that Dynamo can look through it.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (made,) = tree.body
    calls = [n for n in ast.walk(made) if isinstance(n, ast.Name) and n.id == helper]
    if not isinstance(made, ast.FunctionDef) or not calls:
        raise fail(f"{function.__name__} does not call inner={helper!r} itself")
    for name in calls:
        name.id = "inner"
    made.decorator_list = []
    made.args.args.append(ast.arg("inner"))
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    code = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec")
    own: dict[str, Any] = {}
    exec(code, function.__globals__, own)
    return own[function.__name__]


def _check_fallback(text: str, names: set[str], fail: Callable[[str], RuleError]) -> None:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise fail(f"fallback is not Python ({error.msg})") from None
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    if "via" not in used or not used <= names:
        raise fail(
            f"fallback {text!r} must call via and use nothing but {', '.join(sorted(names))}"
        )


def _check(owner: Op, variant: Variant, where: str) -> None:
    """Every call has one answer."""
    for other in owner.variants:
        if other.name == variant.name:
            raise RuleError(f"{where}: {owner.name} already has a reference of that name")
        if _selector(other) == _selector(variant):
            raise RuleError(f"{where}: {variant.call!r} cannot be told from {other.call!r}")


def _selector(variant: Variant) -> tuple[Any, ...]:
    fixed = {
        i: repr(p.value) for i, p in enumerate(variant.positional) if isinstance(p, ast.Constant)
    }
    return (len(variant.positional), variant.at_least, fixed, variant.literals, set(variant.named))


# ------------------------------------------------------------------ loading
def directories() -> list[str]:
    """Where rule files are looked for: the built-in ones, then those that were added."""
    return list(__path__)


def add(directory: str | os.PathLike[str]) -> list[str]:
    """Loads the rule files of a directory; their ops become `tfrewrite.ops.<op>`. Returns the op
    names.
    """
    folder = str(Path(directory).resolve())
    if not os.path.isdir(folder):
        raise RuleError(f"{directory}: no such directory of rule files")
    with _lock:
        if folder not in __path__:
            stems = {p.stem for p in Path(folder).glob("*.py")}
            for other in __path__:
                if clash := stems & {p.stem for p in Path(other).glob("*.py")}:
                    name = min(clash)
                    raise RuleError(f"{folder}/{name}.py: a rule file of that name is in {other}")
            before = {name: replace(op, variants=list(op.variants)) for name, op in _ops.items()}
            __path__.append(folder)
            importlib.invalidate_caches()
            try:
                _load(folder)
            except BaseException:  # as if it had never been there
                __path__.remove(folder)
                _ops.clear()
                _ops.update(before)
                for stem in stems:
                    sys.modules.pop(f"{__name__}.{stem}", None)
                raise
        home = tuple(f"{__name__}.{p.stem}" for p in Path(folder).glob("*.py"))
        names = sorted(op.name for op in _ops.values() if op.module in home)
    ops = sys.modules.get("tfrewrite.ops")
    if ops is not None:
        ops.install(_ops)
    return names


def load() -> dict[str, Op]:
    """Every known op: loads the built-in files and those of $TFR_RULES at the first call."""
    with _lock:
        _load(__path__[0])
        for folder in filter(None, os.environ.get("TFR_RULES", "").split(os.pathsep)):
            add(folder)
        return dict(_ops)


def _load(folder: str) -> None:
    if folder in _loaded:
        return
    stems = sorted(p.stem for p in Path(folder).glob("*.py") if not p.stem.startswith("_"))
    for stem in stems:
        try:
            importlib.import_module(f"{__name__}.{stem}")
        except RuleError:
            raise
        except Exception as error:
            raise RuleError(f"{folder}/{stem}.py: {type(error).__name__}: {error}") from error
    _loaded.add(folder)
