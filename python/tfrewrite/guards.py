"""Whether a call may go to a kernel: what the caller's values, modules and helpers really are.

A kernel computes the rule's reference on plain tensors without gradients. Whatever could make the
reference do something else (a hook, an adapter, a subclass, a replaced helper, autocast, a trace)
is looked for here on every call, and then the reference runs. Knows no single op.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import importlib.util
import inspect
import linecache
import sys
import textwrap
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as _module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

_compiling = torch.compiler.is_compiling
_PLAIN = (torch.Tensor, nn.Parameter)
_FLOATS = (torch.float32, torch.bfloat16)  # on a GPU float16 too
_CALL, _LINEAR, _LAYER_NORM = nn.Module.__call__, nn.Linear.forward, nn.LayerNorm.forward
_exporting = getattr(torch.compiler, "is_exporting", lambda: False)


# ------------------------------------------------------------------ tensors
def ready(*tensors: torch.Tensor | None) -> bool:
    """Whether these are plain tensors of a kernel's dtypes, on the CPU or a GPU, and nothing watches
    the call.

    Never called while torch.compile traces.
    """
    if (
        torch._C._is_any_autocast_enabled()
        or torch._C._functorch.maybe_current_level() is not None
        or torch.autograd.forward_ad._current_level >= 0
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack()
        or (torch._C._is_torch_function_mode_enabled() and not _only_devices())
    ):
        return False
    return _plain_tensors(tensors)


def _only_devices() -> bool:
    """`with torch.device(...)` and set_default_device say where new tensors go, and no more."""
    return all(type(m) is DeviceContext for m in _get_current_function_mode_stack())


def ready_in_graph(*tensors: torch.Tensor | None) -> bool:
    """As `ready`, and also while torch.compile traces: for ops that Inductor does not fuse."""
    if not _compiling():
        return ready(*tensors)
    if _exporting() or torch._C._is_any_autocast_enabled():
        return False
    return _plain_tensors(tensors)


def _plain_tensors(tensors: tuple[torch.Tensor | None, ...]) -> bool:
    grad, eager = torch.is_grad_enabled(), not _compiling()
    for t in tensors:
        if t is not None and not (
            type(t) in _PLAIN
            and (t.dtype in _FLOATS if t.is_cpu else t.is_cuda and _on_gpu(t.dtype))
            and t.layout is torch.strided
            and t.dim()
            and not (grad and t.requires_grad)
            and not (eager and not t.is_contiguous() and _transposed(t))
        ):
            return False
    return True


def _on_gpu(dtype: torch.dtype) -> bool:
    return dtype in _FLOATS or dtype is torch.float16


def _transposed(t: torch.Tensor) -> bool:
    """Whether neighbours lie closer in another dimension than in the last: a kernel would read a
    copy and lose that layout, which torch's results keep.
    """
    strides, sizes = t.stride(), t.shape
    last = strides[-1]
    return sizes[-1] > 1 and any(
        n > 1 and 0 < s < last for s, n in zip(strides, sizes, strict=True)
    )


# ------------------------------------------------------------------ modules
def plain(module: nn.Module) -> bool:
    """Whether calling it runs its class's forward and nothing else."""
    return not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
        or module._compiled_call_impl is not None
        or nn.Module.__call__ is not _CALL
        or _module._global_forward_hooks
        or _module._global_forward_pre_hooks
        or _module._global_backward_hooks
        or _module._global_backward_pre_hooks
    )


def linears(modules: tuple[Any, ...]) -> list[torch.Tensor | None] | None:
    """Weight and bias of each, one after the other; None: one is not a plain nn.Linear."""
    found: list[torch.Tensor | None] = []
    for m in modules:
        if type(m) is not nn.Linear or not plain(m) or nn.Linear.forward is not _LINEAR:
            return None
        parameters = m._parameters
        weight = parameters.get("weight")
        if weight is None:
            return None
        found += (weight, parameters.get("bias"))
    return found


def layer_norm(
    module: Any,
) -> tuple[torch.Tensor | None, torch.Tensor | None, float, int] | None:
    """Weight, bias, eps and size of a plain nn.LayerNorm over the last dimension alone."""
    if type(module) is not nn.LayerNorm or not plain(module):
        return None
    parameters, shape, eps = module._parameters, module.normalized_shape, module.eps
    if nn.LayerNorm.forward is not _LAYER_NORM or "weight" not in parameters:
        return None
    if "bias" not in parameters or type(shape) is not tuple or len(shape) != 1:
        return None
    if type(eps) is not float or type(shape[0]) is not int:
        return None
    return parameters["weight"], parameters["bias"], eps, shape[0]


@dataclass(frozen=True)
class _NormCall:
    """What a norm's forward is: `return tfr.rms_norm(x, self.<weight>, self.<eps>, ...)`."""

    variant: int
    weight: str | None
    eps: str | float
    via: str | None


_norms: dict[FunctionType, _NormCall | None] = {}


def norm(module: Any) -> tuple[torch.Tensor | None, float, int] | None:
    """Weight, eps and number of the reference of a module whose forward is one rms_norm."""
    if not isinstance(module, nn.Module) or not plain(module):
        return None
    forward = type(module).forward
    if type(forward) is not FunctionType:
        return None
    if forward not in _norms:
        _norms[forward] = _read_norm(forward)
    call = _norms[forward]
    if call is None or (call.via and not _method_in_force(module, call.via, forward)):
        return None
    eps = getattr(module, call.eps) if isinstance(call.eps, str) else call.eps
    weight = getattr(module, call.weight) if call.weight else None
    if type(eps) is not float or (call.weight and weight is None):
        return None
    return weight, eps, call.variant


def _read_norm(forward: FunctionType) -> _NormCall | None:
    from tfrewrite import ops, rules

    if hasattr(forward, "__wrapped__"):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward))).body[0]
    except (OSError, SyntaxError, TypeError, IndexError):
        return None
    if not isinstance(tree, ast.FunctionDef) or len(tree.args.args) < 2:
        return None
    body = [s for s in tree.body if not _is_text(s)]
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    if not (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "rms_norm"
        and isinstance(call.func.value, ast.Name)
        and forward.__globals__.get(call.func.value.id) is ops
        and len(call.args) == 3
        and isinstance(call.args[0], ast.Name)
        and call.args[0].id == tree.args.args[1].arg
    ):
        return None
    own, via, literals = tree.args.args[0].arg, None, {}
    for k in call.keywords:
        if k.arg == "via":
            via = _attribute(k.value, own)
            if via is None:
                return None
        elif isinstance(k.value, ast.Constant):
            literals[k.arg] = k.value.value
    weight, eps = _attribute(call.args[1], own), _attribute(call.args[2], own)
    if eps is None and isinstance(call.args[2], ast.Constant):
        eps = call.args[2].value
    none = isinstance(call.args[1], ast.Constant) and call.args[1].value is None
    if eps is None or (weight is None and not none):
        return None
    for number, variant in enumerate(rules.load()["rms_norm"].variants):
        takes_none = isinstance(variant.positional[1], ast.Constant)
        if variant.literals == literals and takes_none == none:
            return _NormCall(number, weight, eps, via)
    return None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _attribute(node: ast.expr, own: str) -> str | None:
    """`weight` of the expression `self.weight`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        private = node.attr.startswith("__") and not node.attr.endswith("__")
        return node.attr if node.value.id == own and not private else None
    return None


def _method_in_force(module: nn.Module, name: str, forward: FunctionType) -> bool:
    method = inspect.getattr_static(type(module), name, None)
    function = method.__func__ if isinstance(method, staticmethod) else method
    names, file = forward.__globals__, forward.__code__.co_filename
    return (
        name not in module.__dict__
        and _defined_in(function, names, file)
        and _helpers_pristine(function.__code__, names)
    )


# ------------------------------------------------------------------ helpers: `via=`
def pristine(via: Any, passed: tuple[str, ...] = (), **keywords: Any) -> bool:
    """Whether `via` is the function that the caller's own file defines, or imports, under the name
    used there.

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
    if type(via) is not FunctionType or names.get(via.__name__) is not via:
        return False
    if not _known_as(via.__name__, via, names, code.co_filename):
        return False
    for name in _global_names(code):
        if names.get(name) is via and name != via.__name__:
            return False
    own = via.__code__.co_varnames[: via.__code__.co_argcount + via.__code__.co_kwonlyargcount]
    for name, value in keywords.items():
        if name not in passed and name in own and not _leaves_to_default(via, name, value):
            return False
    return _helpers_pristine(via.__code__, via.__globals__)


def _known_as(name: str, value: Any, names: dict[str, Any], filename: str) -> bool:
    """Whether the file defines `value` under that name, or imports it from the file that does."""
    if type(value) is not FunctionType or not value.__name__ == value.__qualname__ == name:
        return False  # the other name is that of a function within another one
    if _defined_in(value, names, filename):
        return True
    module = sys.modules.get(_imports(filename, names.get("__package__") or "").get(name, ""))
    theirs = value.__globals__
    return (
        module is not None
        and vars(module) is theirs
        and theirs.get(name) is value
        and _defined_in(value, theirs, _file_of(module))
    )


def _file_of(module: Any) -> str:
    """The file that a module's code names: its own, or the rewritten one in the cache."""
    hook = sys.modules.get("tfrewrite.hook")
    known = hook.results.get(module.__name__) if hook is not None else None
    return known.path if known and known.path else getattr(module, "__file__", None) or ""


@functools.lru_cache(maxsize=256)
def _imports(filename: str, package: str) -> dict[str, str]:
    """The modules that a file imports names from, by name; without those it imports twice."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, str] = {}
    for node in tree.body:
        for alias in node.names if isinstance(node, ast.ImportFrom) and node.module else ():
            dots = "." * node.level
            try:
                module = importlib.util.resolve_name(dots + node.module, package or None)
            except ImportError:
                continue
            name = alias.asname or alias.name
            found[name] = "" if name in found else module
    return found


def _defined_in(function: Any, names: dict[str, Any], filename: str) -> bool:
    return (
        type(function) is FunctionType
        and function.__globals__ is names
        and function.__code__.co_filename == filename
        and function.__code__.co_name == function.__name__  # not another function's __code__
    )


def _helpers_pristine(code: CodeType, names: dict[str, Any]) -> bool:
    """The same for what a helper calls: rotate_half may be replaced on its own."""
    todo, seen = [(code, names)], {id(code)}
    while todo:
        code, names = todo.pop()
        for name in _global_names(code):
            value = names.get(name)
            if not callable(value):  # a module or a constant
                continue
            if not _known_as(name, value, names, code.co_filename):
                return False
            if id(value.__code__) not in seen:
                seen.add(id(value.__code__))
                todo.append((value.__code__, value.__globals__))
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
