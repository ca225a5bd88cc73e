"""Calls an op on the simulated device and holds everything about it against its reference.

`hold` is the one check of this folder: the kernel ran, once; no checker of the simulator reports;
it touched its own memory alone; inputs are as before; results have the reference's shape, dtype,
strides, NaNs, and its values within the bounds of `_compare`. Knows what each op rounds, no kernel.
"""

from __future__ import annotations

from collections import Counter

import simulated  # the driver comes before torch
import torch
from shapes import BF16, F16, F32, FUNCTIONS, INF, LIMIT, is_clamped
from tfrewrite import activations, kernels, rules

ULP = {F32: 2.0**-23, BF16: 2.0**-7, F16: 2.0**-10}  # of 1
TINY = {F32: 2.0**-149, BF16: 2.0**-133, F16: 2.0**-24}  # the smallest number
SHARE = 1e-3  # of a 16-bit result's elements that may differ
OPS = rules.load()
NORMS = [(i, v) for i, v in enumerate(OPS["rms_norm"].variants) if v.kernel is not None]
kernels.install(OPS)


ADDS = ("add_rms_norm", "add_layer_norm")  # whose second result is the sum


class Mismatch(AssertionError):
    """What a kernel gave is not what its reference gives, or it ran in a way that it must not."""


class Seen:
    """Counts of one run of the tests, for its summary."""

    calls: Counter = Counter()  # op -> calls
    elements: Counter = Counter()  # (op, dtype) -> elements of 16-bit results
    off: Counter = Counter()  # (op, dtype) -> those that differ


def variants(op: str) -> list[str]:
    """The references of an op that have a kernel."""
    return [v.name for v in OPS[op].variants if v.kernel is not None]


def hold(op: str, variant: str, *arguments, wanted=None, path="cuda") -> tuple:
    """The kernel's results; Mismatch if they, or the way to them, are not right. `wanted`: what the
    reference gives, where it is known already.
    """
    where = f"{op}.{variant} of {[describe(a) for a in arguments if isinstance(a, torch.Tensor)]}"
    if wanted is None:
        wanted = reference(op, variant, *arguments)
    before = [a.clone() if isinstance(a, torch.Tensor) else None for a in arguments]
    launches = simulated.launches()
    with simulated.strict():
        got = as_tuple(simulated.kernel(op, variant)(*arguments))
    if kernels.last_path() != path:
        raise Mismatch(f"{where}: took the path {kernels.last_path()}")
    ran = simulated.launches() - launches
    if path == "cuda" and ran != any(t.numel() > 0 for t in wanted):
        raise Mismatch(f"{where}: {ran} launches")
    if ran and (findings := simulated.report()["findings"]):
        raise Mismatch(f"{where}: {len(findings)} findings, the first {findings[0]}")
    for old, new in zip(before, arguments, strict=True):
        if old is not None and not same_bits(old, new):
            raise Mismatch(f"{where}: an input has changed")
    Seen.calls[op] += 1
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        _compare(op, variant, i, arguments, f"{where}: result {i}", a, b)
    return got


def reference(op: str, variant: str, *arguments) -> tuple:
    return as_tuple(kernels.reference(OPS[op], variant)(*arguments))


def as_tuple(result) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def describe(t: torch.Tensor) -> str:
    kind = str(t.dtype).removeprefix("torch.")
    loose = "" if t.is_contiguous() else f" strides {t.stride()}"
    return (
        f"{kind} {tuple(t.shape)}{loose}{f' at {t.data_ptr() % 16}' if t.data_ptr() % 16 else ''}"
    )


# ------------------------------------------------------------------ values
def bits(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().view(torch.int32 if t.dtype == F32 else torch.int16)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(bits(a), bits(b))


def steps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """How many 16-bit numbers lie between the two; 0 where both are NaN."""
    a, b = (bits(t.nan_to_num(0)).to(torch.int32) for t in (got, want))
    a, b = (torch.where(i < 0, -32768 - i, i) for i in (a, b))
    return (a - b).abs()


def _compare(op, variant, number, arguments, where, got, want) -> None:
    for what in ("shape", "dtype"):
        if getattr(got, what) != getattr(want, what):
            raise Mismatch(f"{where}: {what} {getattr(got, what)}, not {getattr(want, what)}")
    if got.stride() != want.stride() and want.numel():
        raise Mismatch(f"{where}: strides {got.stride()}, not {want.stride()}")
    if not torch.equal(got.isnan(), want.isnan()):
        raise Mismatch(f"{where}: NaN in other places")
    if not want.numel():
        return
    if op == "rope" or (op in ADDS and number == 1):
        _compare_bits(where, got, want)
    elif op == "add_layer_norm":
        _compare_layer_norm(arguments, where, got, want)
    elif op == "act_mul":
        _compare_product(*product_of(variant, arguments), where, got, want)
    elif op == "softcap":
        _compare_capped(arguments, where, got, want)
    else:
        _compare_normed(op, arguments, where, got, want)


def _compare_bits(where, got, want) -> None:
    """Sums and products, each rounded as torch does: nothing is left to chance. A NaN has any bits."""
    off = (bits(got) != bits(want)) & ~(got.isnan() & want.isnan()).contiguous()
    if off.any():
        raise Mismatch(f"{where}: {int(off.sum())} of {off.numel()} elements differ")


def _compare_normed(op, arguments, where, got, want) -> None:
    """The root of a mean has an error of an ulp or two, each value behind it then as much. Where one
    is rounded to 16 bits on its way, that may move the rounding, and a second one behind a weight;
    where a rotation takes one product from another the error counts against the larger, of which a
    row's largest element is a bound.
    """
    size = want.double().abs()
    if op == "qk_norm_rope":
        size = torch.maximum(size, size.nan_to_num(0, posinf=0).amax(-1, keepdim=True))
    dtypes = {want.dtype} | {a.dtype for a in arguments if isinstance(a, torch.Tensor)}
    coarse = max((ULP[d] for d in dtypes if d != F32), default=0.0)
    fine = 1e-6 * size + 2 * TINY[want.dtype]
    _within(where, got, want, 2.01 * coarse * size + fine)
    if want.dtype != F32:
        _count(op, where, got, want)
    elif coarse:
        _count(
            op, where, got, want, want.isfinite() & ((got.double() - want.double()).abs() > fine)
        )


def _compare_layer_norm(arguments, where, got, want) -> None:
    """Mean and root have an error of an ulp or two, which counts against the terms of the sum where
    they cancel; one rounding to 16 bits is behind all of it.
    """
    x, residual, weight, bias, eps, _ = arguments
    s = (residual + x).double()
    usual = s.abs().mean(-1, keepdim=True)  # the mean's error is one of this size
    terms = (s.abs() + usual) / (s.var(-1, keepdim=True, correction=0) + eps).sqrt()
    terms = terms if weight is None else terms * weight.double().abs()
    terms = terms if bias is None else terms + bias.double().abs()
    size, ulp = want.double().abs(), 0.0 if want.dtype == F32 else ULP[want.dtype]
    bound = 1.01 * ulp * size + 1e-6 * terms.nan_to_num(0, posinf=0) + 2 * TINY[want.dtype]
    _within(where, got, want, bound)
    if want.dtype != F32:  # where a sum all but cancels the terms' own error is seen
        _count("add_layer_norm", where, got, want, (steps(got, want) > 0) & (size >= terms / 16))


def _compare_product(gate, up, act, where, got, want) -> None:
    """torch's own exp, erf and tanh are off by some ulps of f32. Where 1 + erf or 1 + tanh cancels,
    that error is one of the gate's size: there it may move more 16-bit results than elsewhere.
    """
    cancels = act in ("GELU", "GELU_TANH", "NEW_GELU")
    size, whole = want.double().abs(), (gate.double() * up.double()).abs()
    # A 16-bit result may be off by an ulp, twice as much where the activation is rounded on its way.
    ulps = 2.01 if act in ("QUICK_GELU", "NEW_GELU", "SWISH", "SLOPED") else 1.01
    ulp = 0.0 if gate.dtype == want.dtype == F32 else ulps * max(ULP[gate.dtype], ULP[want.dtype])
    slack = 1e-6 * (whole if cancels else size) + ulp * size + 2 * TINY[want.dtype]
    if gate.dtype != F32:
        slack += 1.01 * TINY[gate.dtype] * up.double().abs()
        if act == "NEW_GELU":  # whose tanh is rounded before 1 is added to it
            slack += ULP[gate.dtype] / 2 * whole
    _within(where, got, want, slack.nan_to_num(0, posinf=0))
    if want.dtype != F32:
        off = steps(got, want) > 0
        _count("act_mul", where, got, want, off & (size >= whole / 4) if cancels else off)


def _compare_capped(arguments, where, got, want) -> None:
    """A product with the reciprocal instead of the quotient, and another tanh: an ulp of f32 each,
    which moves a rounding to 16 bits rarely, and that one the next. What is cut off at the smallest
    number is multiplied by cap.
    """
    size, cap = want.double().abs(), abs(arguments[1])
    ulp = 0.0 if want.dtype == F32 else 3.01 * ULP[want.dtype]
    least = 2 * TINY[want.dtype] * (1 + cap if cap < INF else 1)
    _within(where, got, want, (1e-6 + ulp) * size + least)
    if want.dtype != F32:
        _count("softcap", where, got, want)


def product_of(variant, arguments) -> tuple[torch.Tensor, torch.Tensor, str]:
    """gate, up and the activation's name, of act_mul's arguments."""
    first = variant not in FUNCTIONS
    act = activations.ACTS[arguments[0]] if first else FUNCTIONS[variant]
    gate = arguments[first]
    if not variant.startswith("packed"):
        up = arguments[first + 1]
    elif "interleaved" in variant:
        gate, up = gate[..., ::2], gate[..., 1::2]
    else:
        gate, up = gate.chunk(2, -1)
        if "up_first" in variant:
            gate, up = up, gate
    if is_clamped(variant):
        gate, up = gate.clamp(max=LIMIT), up.clamp(-LIMIT, LIMIT)
    return gate, up + 1 if variant.endswith("_sloped") else up, act


def _within(where, got, want, bound) -> None:
    infinite = want.isinf()
    if not torch.equal(got[infinite], want[infinite]):
        raise Mismatch(f"{where}: infinities in other places")
    finite = want.isfinite()
    error = (got.double() - want.double()).abs()
    far = finite & ~(error <= bound)
    if far.any():
        worst = float((error / bound)[far].max())
        raise Mismatch(
            f"{where}: {int(far.sum())} of {far.numel()} elements differ, {worst:.3g} of the bound"
        )


def _count(op, where, got, want, off=None) -> None:
    off = int((steps(got, want) > 0 if off is None else off).sum())
    Seen.elements[op, want.dtype] += want.numel()
    Seen.off[op, want.dtype] += off
    # Twice the share of all: a root that is off by an ulp moves all elements of one value at once.
    if off > max(2, 2 * SHARE * want.numel()):
        raise Mismatch(f"{where}: {off} of {want.numel()} elements differ by an ulp or more")
