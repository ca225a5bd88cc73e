"""What is fused in a model that is in memory: `report(model)`.

The ops are read from the functions that are in force (in_force.py); what was refused and why comes
from the hook's results. Knows no single op.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfrewrite import hook, in_force, ops, packing


@dataclass
class ClassReport:
    """One class of the model's modules."""

    module: str
    name: str
    instances: int = 0
    ops: Counter[str] = field(default_factory=Counter)  # op -> calls in the source of its methods
    refused: list[dict[str, Any]] = field(default_factory=list)
    replaced: list[str] = field(
        default_factory=list
    )  # methods that no longer are the rewritten ones


@dataclass
class ModelReport:
    model: str
    classes: list[ClassReport]
    functions: dict[str, Counter[str]]  # module-level functions with ops, "module.function" -> ops
    modules: list[hook.ModuleResult]  # what the hook did with the files the classes come from
    conditions: dict[str, list[str]]  # why a module is called as it is -> the modules' paths
    unwritten: list[str]  # modeling modules that run as they are, with the reason
    packing: packing.Packing  # where the weights of merged projections lie
    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # of ops.record()

    @property
    def fused(self) -> int:
        """How many op calls stand in the classes and functions of this model."""
        return sum(sum(c.ops.values()) for c in self.classes) + sum(
            sum(c.values()) for c in self.functions.values()
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        with_ops = [c for c in self.classes if c.ops]
        if self.fused:
            yield f"tfrewrite: {self.model}: {self.fused} fused op calls in {len(with_ops)} classes"
        else:
            yield f"tfrewrite: NOTHING is fused in {self.model}"
        for c in with_ops:
            yield f"  {c.name} x{c.instances}: {_counts(c.ops)}"
        for name, found in self.functions.items():
            yield f"  {name}(): {_counts(found)}"
        yield from self.packing.lines()
        for c in self.classes:
            for what in c.replaced:
                yield f"  {c.name}.{what} was replaced: its ops do not run"
        for reason, paths in self.conditions.items():
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            yield f"  called as a module: {paths[0]}{more} ({reason})"
        for (op, variant, path), n in sorted(self.calls.items()):
            yield f"  ran: {op}/{variant} {n} times ({path})"
        for reason in self.unwritten:
            yield f"  as it was: {reason}"
        for c in self.classes:
            for r in c.refused:
                where = f"{c.name}.{r.get('function')} line {r.get('line')}"
                yield f"  not fused: {where}: {r.get('op')}: {r.get('reason')}"


def _counts(found: Counter[str]) -> str:
    return ", ".join(op if n == 1 else f"{op} x{n}" for op, n in sorted(found.items()))


def report(model: Any, calls: Counter[tuple[str, str, str]] | None = None) -> ModelReport:
    """What is fused in a model, class by class, what is not, and why. Warns when nothing is.

    calls: what `tfrewrite.ops.record()` counted while the model ran, to say which path was taken.
    """
    classes: dict[type, ClassReport] = {}
    conditions: dict[str, list[str]] = {}
    for path, module in model.named_modules():
        kind = type(module)
        if kind not in classes:
            classes[kind] = _class_report(kind)
        classes[kind].instances += 1
        if classes[kind].ops:
            for where, reason in _conditions(path, module):
                conditions.setdefault(reason, []).append(where)
    names = sorted({n for kind in classes for n in _homes(kind)})
    unwritten = []
    for name in names:
        known = hook.results.get(name)
        if known is not None and known.status != "rewritten":
            unwritten.append(f"{name}: {known.status}{': ' + known.reason if known.reason else ''}")
        elif known is None and hook.wanted(name) and not _module_has_ops(name):
            unwritten.append(f"{name}: imported without tfrewrite.enable()")
    made = ModelReport(
        type(model).__name__,
        [c for c in classes.values() if c.ops or c.refused or c.replaced],
        {f"{n}.{f}": found for n in names for f, found in _functions_with_ops(n)},
        [hook.results[n] for n in names if n in hook.results],
        conditions,
        unwritten,
        packing.state(model),
        Counter(calls or {}),
    )
    if not made.fused:
        why = "; ".join(unwritten) or "no modeling module was recognised"
        hook.warn(f"nothing is fused in {made.model}: {why}")
    return made


# ------------------------------------------------------------------ classes
def _homes(kind: type) -> set[str]:
    """The modules that a class takes its methods from, PyTorch's and Python's own aside."""
    names = {base.__module__ for base in kind.__mro__}
    return {n for n in names if n.split(".")[0] not in ("torch", "builtins", "abc", "typing")}


def _class_report(kind: type) -> ClassReport:
    made = ClassReport(kind.__module__, kind.__qualname__)
    seen: set[str] = set()
    for base in kind.__mro__:
        known = hook.results.get(base.__module__)
        for name, value in vars(base).items():
            if name in seen:
                continue
            seen.add(name)
            found = in_force.ops_in(value)
            made.ops.update(found)
            if known is None:
                continue
            mine = [
                e
                for e in known.fused
                if (e.get("class"), e.get("function")) == (base.__qualname__, name)
            ]
            if mine and not found and known.status == "rewritten":
                made.replaced.append(name)
            made.refused += [
                e
                for e in known.refused
                if (e.get("class"), e.get("function")) == (base.__qualname__, name)
            ]
    return made


def _functions_with_ops(name: str) -> Iterator[tuple[str, Counter[str]]]:
    module = sys.modules.get(name)
    for key, value in sorted(vars(module).items()) if module is not None else ():
        if (
            inspect.isfunction(value)
            and value.__module__ == name
            and (found := in_force.ops_in(value))
        ):
            yield key, found


def _module_has_ops(name: str) -> bool:
    return (
        any(value is ops for value in list(vars(sys.modules[name]).values()))
        if name in sys.modules
        else False
    )


# ------------------------------------------------------------------ instances
def _conditions(path: str, module: Any) -> Iterator[tuple[str, str]]:
    """Why a module with ops, or one that an op of it may take, is called the long way."""
    if "forward" in vars(module):
        yield path or "the model", "its forward was replaced on the instance"
    home = type(module).__module__
    for name, child in module.named_children():
        where = f"{path}.{name}" if path else name
        if "forward" in vars(child):
            yield where, "its forward was replaced on the instance"
        for attribute, what in in_force.HOOKS.items():
            if getattr(child, attribute, None):
                yield where, what
        if "parametrizations" in getattr(child, "_modules", {}):
            yield where, "a parametrization"
        origin = type(child).__module__
        if origin != home and origin.split(".")[0] not in (
            "torch",
            "transformers",
            "transformers_modules",
        ):
            yield where, f"it is a {origin}.{type(child).__qualname__}"
        elif origin.startswith(("torch.ao.", "transformers.integrations.", "torch.nn.quantized")):
            yield where, f"it is a {origin}.{type(child).__qualname__}"
        for weight in child.parameters(recurse=False):
            if type(weight).__name__ not in ("Parameter", "Tensor"):
                yield (
                    where,
                    f"its weight is a {type(weight).__module__}.{type(weight).__qualname__}",
                )
                break
