"""Weights of modules that one `tfr.linears` call takes, laid one after another: `prepare`, `unpack`.

One product over weights that lie together is what CUDA's matrix libraries want; the host's kernel
takes them wherever they lie. Packing is only a matter of where the Parameters lie: the same
Parameter objects, names, shapes and strides, each with a storage of its own that ends where its
bytes end. Nothing is kept that could go stale; what moves a weight (`.to()`, `p.data = ...`, a load with assign=True) leaves its group
apart until `prepare` is called again. Knows no single op and no model.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from tfrewrite import hook, in_force, measure, per_instance

PACKED, ALREADY, APART, REFUSED = "packed", "already packed", "not packed", "refused"
ALONE = "alone"  # of the call's modules this instance has one, or none

_ALIGNMENT = 16  # bytes; kernels and compiled code expect weights to start at a multiple
_ROWS = 24  # a summary fits a screen
_lock = threading.RLock()
_parts: WeakSet[torch.UntypedStorage] = WeakSet()  # the storages made here that are still in use


@dataclass
class Group:
    """The modules of one `tfr.linears` call, in one instance."""

    path: str  # of the instance whose method makes the call; "" for the model itself
    kind: str  # its class
    members: tuple[str, ...]  # attributes of the instance, in the order of the call
    missing: tuple[str, ...] = ()  # why others of the call are not among them
    state: str = APART
    reason: str = ""  # why it was refused, or why only the weights are packed
    copied: int = 0  # bytes


@dataclass
class Packing:
    """Where the weights of a model's merged projections lie; `print` it."""

    model: str
    groups: list[Group] = field(default_factory=list)
    decisions: list[per_instance.Decision] = field(default_factory=list)  # what other ops will run
    unread: list[str] = field(default_factory=list)  # methods whose source is not to be had

    def of(self, state: str) -> list[Group]:
        return [g for g in self.groups if g.state == state]

    @property
    def packed(self) -> list[Group]:
        """Copied by this call."""
        return self.of(PACKED)

    @property
    def already(self) -> list[Group]:
        return self.of(ALREADY)

    @property
    def refused(self) -> list[Group]:
        return self.of(REFUSED)

    @property
    def apart(self) -> list[Group]:
        """Could be packed and are not."""
        return self.of(APART)

    def __str__(self) -> str:
        return "\n".join([f"tfrewrite: {self.model}: {self._summary()}", *self.lines()])

    def _summary(self) -> str:
        if not self.groups:
            return "no projections that run as one"
        states = [s for s in (PACKED, ALREADY, APART, REFUSED, ALONE) if self.of(s)]
        copied = sum(g.copied for g in self.groups)
        shown = ", ".join(f"{len(self.of(s))} {s}" for s in states)
        return f"{shown} ({copied:,} bytes copied)" if copied else shown

    def lines(self) -> Iterator[str]:
        """Equal groups of a class as one line each, with the path of the first."""
        rows: Counter[tuple[str, ...]] = Counter()
        first: dict[tuple[str, ...], str] = {}
        for g in self.groups:
            without = f" ({', '.join(g.missing)})" if g.missing else ""
            row = (g.kind, ", ".join(g.members) + without, g.state, g.reason)
            rows[row] += 1
            first.setdefault(row, g.path or "the model")
        for row in list(rows)[:_ROWS]:
            kind, members, state, reason = row
            why = f": {reason} (first: {first[row]})" if reason else ""
            yield f"  {kind} x{rows[row]}: {members}: {state}{why}"
        if len(rows) > _ROWS:
            yield f"  and {len(rows) - _ROWS} more kinds of groups"
        yield from per_instance.lines(self.decisions)
        for what in self.unread:
            yield f"  not looked at: {what}"


@torch.compiler.disable(reason="it moves weights; call it outside compiled code")
def prepare(model: nn.Module, *, pack: bool | None = None) -> Packing:
    """Makes a model ready for its first call: measures whether its linears run faster in the kernels
    or in torch (measure.py), and with `pack` lays the weights of merged projections together.

    Call it once the weights are in place and again after they have moved; what is packed already
    costs nothing. No other thread may run the model meanwhile, and a captured CUDA graph would
    read the old addresses: prepare first. `pack` moves the weights: by default where they are on a
    GPU; what that gains and where, is in docs/PACKING.md.
    """
    _check_no_capture("prepare")
    if pack is None:
        pack = any(p.is_cuda for p in model.parameters())
    with _lock:
        made = _survey(model, pack)
    _measure(model, made)
    if not made.groups and not _calls_ops(model):
        hook.warn(f"nothing is fused in {made.model}: prepare() has nothing to do")
    return made


@torch.compiler.disable(reason="it moves weights; call it outside compiled code")
def unpack(model: nn.Module) -> Packing:
    """Gives every Parameter that `prepare` has moved memory of its own again."""
    _check_no_capture("unpack")
    with _lock:
        for parameter in model.parameters():
            if type(parameter) is nn.Parameter and _is_part(parameter):
                with _plain_mode(parameter):
                    parameter.data = parameter.detach().clone()
        return _survey(model, pack=False)


def state(model: nn.Module) -> Packing:
    """How the weights lie now; changes nothing."""
    with _lock:
        return _survey(model, pack=False)


def _measure(model: nn.Module, made: Packing) -> None:
    modules = dict(model.named_modules())
    groups = []
    for group in made.groups:
        members = [_attribute(modules[group.path], name) for name in group.members]
        if members and not any(map(_why_not_linear, members)):
            groups.append(members)
    together = {id(m) for members in groups for m in members}
    singles = [m for m in modules.values() if id(m) not in together and not _why_not_linear(m)]
    measure.linears([*groups, *([m] for m in singles)])


def _check_no_capture(what: str) -> None:
    # Asking would start CUDA in a process that has not used it.
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"tfrewrite.{what}() during a CUDA graph capture: it moves weights, and the graph "
                "would keep their old addresses. Call it before the capture"
            )


# ------------------------------------------------------------------ finding groups
def _survey(model: nn.Module, pack: bool) -> Packing:
    made = Packing(type(model).__name__)
    kinds: dict[type, tuple[in_force.Siblings, list[Any]]] = {}
    found: list[tuple[Group, nn.Module]] = []
    for path, module in model.named_modules():
        kind = type(module)
        if kind not in kinds:
            kinds[kind] = _calls_of(kind, made.unread)
        groups, calls = kinds[kind]
        made.decisions += per_instance.survey(path, module, calls)
        for members in groups:
            missing = [m.missing_in(module) for m in members]
            names = tuple(m.name for m, why in zip(members, missing) if not why)
            group = Group(path, kind.__name__, names, tuple(filter(None, missing)))
            found.append((group, module))
    made.groups = [group for group, _ in found]
    if found:
        packer = _Packer(model, pack)
        # Where a call takes q, k, v and another k, v, the first makes the second adjacent.
        for group, module in sorted(found, key=lambda pair: -len(pair[0].members)):
            packer.settle(group, module)
    return made


def _calls_of(kind: type, unread: list[str]) -> tuple[in_force.Siblings, list[Any]]:
    """What a class's methods call: the modules of each `linears`, and every op by its function."""
    groups: list[tuple[in_force.Member, ...]] = []
    calls: list[Any] = []
    for method in in_force.methods(kind):
        try:
            groups += in_force.siblings_in(method)
            for function in in_force.functions(method):
                calls += [(function, call) for call in in_force.calls_in(function)]
        except (OSError, TypeError) as error:
            name = getattr(method, "__qualname__", kind.__qualname__)
            unread.append(f"{name}: {error}")
    return tuple(dict.fromkeys(groups)), calls


def _calls_ops(model: nn.Module) -> bool:
    kinds = {type(m) for m in model.modules()}
    return any(in_force.ops_in(function) for kind in kinds for function in in_force.methods(kind))


# ------------------------------------------------------------------ one group
class _Packer:
    """Decides the state of one group after the other, and packs."""

    def __init__(self, model: nn.Module, pack: bool) -> None:
        self.memory = _Memory(model)
        self.pack = pack
        self.taken: dict[int, tuple[Group, list[int]]] = {}  # parameter -> its group, in order

    def settle(self, group: Group, module: nn.Module) -> None:
        linears = [_attribute(module, name) for name in group.members]
        if len(linears) < 2:
            group.state = ALONE
            return
        for name, linear in zip(group.members, linears):
            if why := _why_not_linear(linear):
                group.state, group.reason = REFUSED, f"{name} {why}"
                return
        group.state, group.reason = self._place(group, "weight", [m.weight for m in linears])
        biases = [m.bias for m in linears if m.bias is not None]
        if group.state == REFUSED or not biases:
            return
        if len(biases) < len(linears):
            placed, why = REFUSED, "some have a bias and some have none"
        else:
            placed, why = self._place(group, "bias", biases)
        if placed == REFUSED:  # the weights are what counts
            group.reason = f"the weights alone: {why}"
        elif placed in (PACKED, APART):
            group.state = placed

    def _place(self, group: Group, what: str, parameters: list[nn.Parameter]) -> tuple[str, str]:
        """Lays parameters one after another, unless they lie so: state and reason."""
        if why := _why_no_group(parameters):
            return REFUSED, why
        order = [id(p) for p in parameters]
        if not _adjacent(parameters):
            if why := self._why_not_move(group, what, parameters, order):
                return REFUSED, why
            if self.pack:
                try:
                    _move_together(parameters)
                except RuntimeError as error:  # out of memory: nothing has moved
                    return REFUSED, str(error).splitlines()[0][:200]
                group.copied += sum(p.nbytes for p in parameters)
            made = PACKED if self.pack else APART
        else:
            made = ALREADY
        for key in order:
            self.taken.setdefault(key, (group, order))
        return made, ""

    def _why_not_move(
        self, group: Group, what: str, parameters: list[nn.Parameter], order: list[int]
    ) -> str:
        for name, parameter in zip(group.members, parameters):
            if why := self.memory.why_not(parameter):
                return f"{name}.{what} {why}"
            other, lies = self.taken.get(id(parameter), (None, order))
            if other is not None and not _within(order, lies):
                return f"{name} lies with {', '.join(other.members)}"
        if any(p.nbytes % _ALIGNMENT for p in parameters[:-1]):
            return f"the next {what} would not start at a multiple of {_ALIGNMENT} bytes"
        return ""


def _within(part: list[int], whole: list[int]) -> bool:
    """Whether the one will be adjacent where the other is."""
    return any(whole[i : i + len(part)] == part for i in range(len(whole)))


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def _why_not_linear(linear: Any) -> str:
    """Why the op would call this module as a module, or its weight cannot be moved."""
    kind = type(linear)
    if linear is None:
        return "is None"
    if kind is not nn.Linear:
        return f"is a {kind.__module__}.{kind.__qualname__}"
    if why := per_instance.why_called(linear):
        return why
    if linear._modules:
        return f"has submodules: {', '.join(linear._modules)}"
    if set(linear._parameters) != {"weight", "bias"}:
        return "has other parameters than weight and bias"
    for name, parameter in linear._parameters.items():
        if parameter is not None and (why := _why_not_plain(parameter)):
            return f"has a {name} that {why}"
    if linear.weight is None or linear.weight.dim() != 2:
        return "has no weight of two dimensions"
    return ""


def _why_not_plain(parameter: Any) -> str:
    kind = type(parameter)
    if kind is not nn.Parameter:
        return f"is a {kind.__module__}.{kind.__qualname__}"
    if parameter.device.type not in ("cpu", "cuda"):
        return f"is on device {parameter.device}"
    if parameter.layout is not torch.strided or not parameter.is_contiguous():
        return "is not contiguous"
    return "" if parameter.numel() else "is empty"


def _why_no_group(parameters: Sequence[nn.Parameter]) -> str:
    for what, values in (
        ("dtypes", {p.dtype for p in parameters}),
        ("devices", {p.device for p in parameters}),
        ("in_features", {p.shape[1:] for p in parameters}),
        ("requires_grad", {p.requires_grad for p in parameters}),
        ("inference mode", {p.is_inference() for p in parameters}),
    ):
        if len(values) > 1:
            return f"mixed {what}"
    return "one parameter twice" if len({id(p) for p in parameters}) < len(parameters) else ""


# ------------------------------------------------------------------ memory
class _Memory:
    """Which Parameters and buffers of a model share names or bytes."""

    def __init__(self, model: nn.Module) -> None:
        self._names: dict[int, list[str]] = {}
        self._shared: dict[int, str] = {}  # a tensor -> the name of another in the same bytes
        ranges: list[tuple[str, int, int, int]] = []
        for path, module in model.named_modules():
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if tensor is None:
                        continue
                    names = self._names.setdefault(id(tensor), [])
                    names.append(f"{path}.{name}" if path else name)
                    if len(names) == 1 and (extent := _extent(tensor)):
                        ranges.append((*extent, id(tensor)))
        self._find_shared(sorted(ranges))

    def _find_shared(self, ranges: list[tuple[str, int, int, int]]) -> None:
        cluster: list[int] = []  # tensors whose storages overlap, one with the next
        device, end = "", 0
        for where, start, stop, tensor in ranges:
            if where != device or start >= end:
                cluster, device, end = [], where, 0
            if cluster:
                self._shared[tensor] = self._names[cluster[0]][0]
                self._shared.setdefault(cluster[0], self._names[tensor][0])
            cluster.append(tensor)
            end = max(end, stop)

    def why_not(self, parameter: nn.Parameter) -> str:
        """Why moving a parameter would part it from something or somebody."""
        names = self._names.get(id(parameter), ())
        if len(names) > 1:
            return f"is {' and '.join(names[:2])}"
        if id(parameter) in self._shared:
            return f"shares memory with {self._shared[id(parameter)]}"
        if parameter.untyped_storage().nbytes() != parameter.nbytes:
            return "is a part of a larger storage"
        if parameter.device.type == "cpu" and parameter.is_shared():
            return "is in memory shared with other processes"
        if parameter.device.type == "cpu" and parameter.is_pinned():
            return "is in pinned memory"
        return ""


def _extent(tensor: torch.Tensor) -> tuple[str, int, int] | None:
    """Device and addresses of a tensor's storage, if it has any."""
    try:
        storage = tensor.untyped_storage()
        start, size = storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError):  # sparse, fake, wrapped
        return None
    return (str(tensor.device), start, start + size) if start and size else None


def _adjacent(parameters: Sequence[nn.Parameter]) -> bool:
    return all(a.data_ptr() + a.nbytes == b.data_ptr() for a, b in zip(parameters, parameters[1:]))


def _is_part(parameter: nn.Parameter) -> bool:
    return _extent(parameter) is not None and parameter.untyped_storage() in _parts


@contextmanager
def _plain_mode(parameter: nn.Parameter) -> Iterator[None]:
    """No gradients, and inference tensors only where the parameter is one itself."""
    with torch.inference_mode(parameter.is_inference()), torch.no_grad():
        yield


def _move_together(parameters: Sequence[nn.Parameter]) -> None:
    """Copies parameters into one buffer and rebinds them; the old memory is free afterwards.

    Each gets a storage that covers its own bytes alone and keeps the buffer alive: torch.save,
    safetensors and everybody who asks whether two weights share a storage see separate ones.
    """
    first = parameters[0]
    with _plain_mode(first):
        size = sum(p.numel() for p in parameters)
        buffer = torch.empty(size, dtype=first.dtype, device=first.device)
        if type(buffer) is not torch.Tensor:
            raise RuntimeError(f"a mode is active that makes {type(buffer).__qualname__}s")
        whole, start, views = buffer.untyped_storage(), 0, []
        for p in parameters:
            part = whole[start : start + p.nbytes]
            view = torch.empty(0, dtype=p.dtype, device=p.device).set_(part, 0, p.shape)
            views.append(view.copy_(p))
            _parts.add(part)
            start += p.nbytes
        for p, view in zip(parameters, views):
            p.data = view
