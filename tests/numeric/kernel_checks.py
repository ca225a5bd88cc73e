"""What is held when kernels run, where to-the-bit equality with the original cannot be.

Every kernel call of a model against its reference on the same arguments (`beside_references`), and
generations with tokens forced. Whole bfloat16 models go through `harness.compare` with an exact
one: their products are sums in another order, so elements differ, but the error must not grow.
Knows of ops only which are matrix products.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import harness
import modes
import torch

PRODUCTS = ("linear", "linears")
MAX_PRODUCT_RATIO = 1.05  # of one product's error, bfloat16
FEW_ROWS = 8  # float32 products of more rows may be torch's: runtime/linear_choice.c


# ------------------------------------------------------------------ whole models
def exact_model(model):
    """The same weights, computed in float32: exact beside bfloat16."""
    return copy.deepcopy(model).float()


def compare_forced(ref: dict, new: dict, exact: dict | None) -> "harness.Figures":
    """Generations whose tokens were forced to be `ref`'s: logits of each step within the bound.

    The token that each step would have taken may differ only where its logits tie within it.
    `exact` is given for bfloat16 models, whose logits generate() hands out as float32.
    """
    figures = harness.Figures()
    for i, (a, b) in enumerate(zip(ref["logits"], new["logits"], strict=True)):
        if exact is None:
            harness.compare_values(f"step {i}", a, b, figures)
            bound = harness.MAX_REL * a.abs().max()
        else:
            harness.compare_to_exact(f"step {i}", a, b, exact["logits"][i], figures)
            bound = 2 * (a - exact["logits"][i]).abs().max()
        for row, (x, y) in enumerate(zip(a.float(), b.float(), strict=True)):
            gap = x.max() - x[y.argmax()]
            if gap > 2 * bound:
                where = f"step {i}, row {row}"
                raise harness.Mismatch(f"{where}: another token without a tie (gap {gap:.3g})")
    return figures


# ------------------------------------------------------------------ single kernels
@dataclass
class Beside:
    """What `beside_references` has seen."""

    calls: Counter = field(default_factory=Counter)  # (op, variant, path)
    off: Counter = field(default_factory=Counter)  # elements of bfloat16 results that differ, by op
    elements: Counter = field(default_factory=Counter)

    def check(self) -> None:
        """Over all calls, as one small tensor may by chance hold more than its share."""
        for op, count in self.off.items():
            if op not in PRODUCTS and count > harness.MAX_ULP_SHARE * self.elements[op]:
                raise harness.Mismatch(
                    f"{op}: {count} of {self.elements[op]} bfloat16 elements differ"
                )


@contextmanager
def beside_references() -> Iterator[Beside]:
    """Every kernel that an op calls is followed by its reference, and the results compared."""
    from tfrewrite import kernels, ops, rules

    seen, get = Beside(), kernels.get

    def both(op, variant):
        kernel = get(op, variant)
        return kernel and paired(seen, op, variant, kernel)

    kernels.get = both
    try:
        ops.install(rules.load())
        yield seen
    finally:
        kernels.get = get
        ops.install(rules.load())


def paired(seen: Beside, op: str, variant: str, kernel):
    """A function that calls the kernel and its reference, and returns the kernel's result."""
    from tfrewrite import kernels, rules

    reference = kernels.reference(rules.load()[op], variant)

    def call(*arguments):
        before = [_bytes(t) for t in arguments]
        result = kernel(*arguments)
        path = kernels.last_path()
        seen.calls[op, variant, path] += 1
        where = f"{op}.{variant} ({path})"
        if not all(a is None or torch.equal(a, _bytes(t)) for a, t in zip(before, arguments)):
            raise harness.Mismatch(f"{where} has changed an argument")
        expected, exact = _tuple(reference(*arguments)), None
        if op in PRODUCTS and arguments[0].dtype == torch.bfloat16:
            exact = _tuple(reference(*(None if t is None else t.double() for t in arguments)))
        for i, (a, b) in enumerate(zip(expected, _tuple(result), strict=True)):
            _compare_result(seen, op, f"{where}: result {i}", a, b, exact and exact[i])
        return result

    return call


def _bytes(argument):
    """A kernel's writes raise no version counter."""
    if not isinstance(argument, torch.Tensor):
        return None
    return argument.detach().clone().contiguous().reshape(-1).view(torch.uint8)


def _tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _compare_result(seen, op, where, ref, new, exact) -> None:
    for what in ("shape", "dtype"):
        if getattr(ref, what) != getattr(new, what):
            raise harness.Mismatch(
                f"{where}: {what} {getattr(ref, what)} became {getattr(new, what)}"
            )
    strides = [harness.real_strides(t.shape, t.stride()) for t in (ref, new)]
    if ref.numel() and strides[0] != strides[1]:
        raise harness.Mismatch(f"{where}: strides {ref.stride()} became {new.stride()}")
    if not torch.equal(ref.isnan(), new.isnan()):
        raise harness.Mismatch(f"{where}: NaN in other places")
    if ref.dtype == torch.float32:
        harness.compare_values(where, ref, new, harness.Figures())
        return
    steps = (
        harness.ordered_bits(ref.nan_to_num(0)) - harness.ordered_bits(new.nan_to_num(0))
    ).abs()
    seen.off[op] += int((steps > 0).sum())
    seen.elements[op] += steps.numel()
    if exact is not None:
        finite = ref.isfinite() & new.isfinite()
        errors = [harness.rms(t[finite].double() - exact[finite]) for t in (ref, new)]
        if finite.any() and harness.error_ratio(*errors) > MAX_PRODUCT_RATIO:
            raise harness.Mismatch(f"{where}: error {errors[1] / errors[0]:.3g} times torch's")
    elif steps.numel() and int(steps.max()) > 1:
        # One more rounding moved by a sum's order: another ulp behind a weight, or more where q
        # and k of a rotation all but cancel.
        near = 2.0**-8 * ref.float().abs().amax(-1, keepdim=True)
        far = (steps > 2) & ~((ref.float() - new.float()).abs() <= near)
        if far.any():
            raise harness.Mismatch(f"{where}: off by {int(steps[far].max())} ulp")


# ------------------------------------------------------------------ which path ran
def paths_by_reference(counts, mode: str = modes.KERNELS) -> dict[str, int]:
    """What `ops.record()` counted as "op.variant path" -> calls, where the path that a kernel takes
    in this process and mode reads "kernel".
    """
    table: Counter = Counter()
    for (op, variant, path), n in counts.items():
        by_torch = mode == modes.TORCH and op in PRODUCTS
        if path == ("torch" if by_torch else modes.kernel_path()):
            path = "kernel"
        table[f"{op}.{variant} {path}"] += n
    return dict(sorted(table.items()))
