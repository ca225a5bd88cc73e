"""Calls of every op: which, and with what arguments, on a given device. The same seed gives the same
values everywhere, as they are made on the CPU. Knows the ops' arguments, no kernel.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import shapes
import torch
from tfrewrite import activations, rules

OPS = rules.load()
NORMS = [(i, v) for i, v in enumerate(OPS["rms_norm"].variants) if v.kernel is not None]
PRODUCTS = ("linear", "linears")  # torch's matmul on a GPU


@dataclass(frozen=True)
class Case:
    op: str
    variant: str
    dtype: torch.dtype
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        sizes = " ".join("x".join(map(str, t.shape)) for t in self.tensors)
        return f"{self.op}.{self.variant} {str(self.dtype).removeprefix('torch.')} {sizes}"

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [a for a in self.arguments if isinstance(a, torch.Tensor)]

    def on(self, device: str) -> Case:
        """On another device, strides kept."""
        moved = [_moved(a, device) if isinstance(a, torch.Tensor) else a for a in self.arguments]
        return Case(self.op, self.variant, self.dtype, tuple(moved))


def _moved(t: torch.Tensor, device: str) -> torch.Tensor:
    whole = t.as_strided((t.untyped_storage().nbytes() // t.itemsize,), (1,), 0)
    return whole.to(device).as_strided(t.shape, t.stride(), t.storage_offset())


def kernel_variants(op: str) -> list[str]:
    return [v.name for v in OPS[op].variants if v.kernel is not None]


# ------------------------------------------------------------------ every op and reference
def every(dtypes: list[torch.dtype], rounds: int, seed: int, largest: int) -> Iterator[Case]:
    """Random sizes, odd ones among them, and every arrangement in memory by turns."""
    pick = random.Random(seed)
    for _ in range(rounds):
        for dtype in dtypes:
            width = pick.choice((pick.randrange(1, 300), 8 * pick.randrange(1, largest // 8)))
            head = 2 * pick.choice((pick.randrange(1, 65), 4 * pick.randrange(1, 33)))
            yield from norms(dtype, width, pick)
            yield from products(dtype, width, pick)
            yield from rotations(dtype, head, pick)
            yield from linears(dtype, 16 * pick.randrange(1, 9), pick)


def norms(dtype: torch.dtype, width: int, pick: random.Random) -> Iterator[Case]:
    for number, norm in NORMS:
        x = _rows(width, dtype, pick)
        residual = shapes.values(x.shape, dtype, pick.randrange(1 << 20))
        weight = shapes.values((width,), dtype, pick.randrange(1 << 20))
        given = shapes.norm_arguments(norm, x, weight)
        yield Case("rms_norm", norm.name, dtype, given)
        given = shapes.add_norm_arguments((number, norm), x, residual, weight)
        yield Case("add_rms_norm", "add_then_norm", dtype, given)
    for variant in kernel_variants("add_layer_norm"):
        x = _rows(width, dtype, pick)
        residual, weight, bias = (
            shapes.values(shape, dtype, pick.randrange(1 << 20))
            for shape in (x.shape, (width,), (width,))
        )
        given = x, residual, weight, pick.choice((bias, None)), 1e-5, width
        yield Case("add_layer_norm", variant, dtype, given)
    for variant in kernel_variants("gated_rms_norm"):
        x = _rows(width, dtype, pick)
        gate, weight = (
            shapes.values(shape, dtype, pick.randrange(1 << 20)) for shape in (x.shape, (width,))
        )
        groups = 8 if width % 8 == 0 else 1
        act = activations.ACTS.index("SILU")
        given = shapes.gated_arguments(variant, x, gate, act, weight, groups, pick.randrange(2))
        yield Case("gated_rms_norm", variant, dtype, given)
    for variant in kernel_variants("l2_norm"):
        # 16-bit calls of some are the reference's
        if variant not in shapes.FLOAT32_ALONE or dtype == torch.float32:
            given = shapes.l2_arguments(variant, _rows(width, dtype, pick))
            yield Case("l2_norm", variant, dtype, given)


def products(dtype: torch.dtype, width: int, pick: random.Random) -> Iterator[Case]:
    acts = list(activations.ACTS)
    for variant in kernel_variants("act_mul"):
        for act in acts if variant == "two_inputs" else [pick.choice(acts)]:
            gate = _rows(width, dtype, pick)
            up = shapes.values(gate.shape, dtype, pick.randrange(1 << 20))
            given = shapes.act_arguments(variant, act, gate, up)
            yield Case("act_mul", variant, dtype, given)
    for variant in kernel_variants("softcap"):
        x = 40 * _rows(width, dtype, pick)
        yield Case("softcap", variant, dtype, (x, 30.0, 0.37)[: 2 + (variant == "scaled")])


def rotations(dtype: torch.dtype, head: int, pick: random.Random) -> Iterator[Case]:
    batch, seq, heads = pick.randrange(1, 3), pick.randrange(1, 40), pick.randrange(1, 9)
    for variant in kernel_variants("rope"):
        q = shapes.heads_first((batch, heads, seq, head), dtype, 1, pick.random() < 0.5)
        k = shapes.heads_first((batch, 2, seq, head), dtype, 2, pick.random() < 0.5)
        tables = shapes.tables(variant, batch, seq, head, dtype)
        yield Case("rope", variant, dtype, shapes.rope_arguments(variant, q, k, *tables))
    for variant in kernel_variants("qk_norm_rope"):
        numbered, dtypes = pick.choice(NORMS), (dtype, dtype, dtype)
        given = shapes.norm_rope_arguments(
            variant, numbered, (batch, seq, heads, head), 2, dtypes, shapes.values
        )
        yield Case("qk_norm_rope", variant, dtype, tuple(given))


def linears(dtype: torch.dtype, width: int, pick: random.Random) -> Iterator[Case]:
    for rows in (1, pick.randrange(2, 20)):
        x = shapes.values((rows, width), dtype, 1)
        for count in (2, 3):
            given = [x]
            for i in range(count):
                outer = 8 * pick.randrange(1, 9)
                given.append(shapes.values((outer, width), dtype, 2 + i, width**-0.5))
                given.append(shapes.values((outer,), dtype, 9 + i) if i % 2 else None)
            yield Case("linears", f"m{count}", dtype, tuple(given))


def _rows(width: int, dtype: torch.dtype, pick: random.Random) -> torch.Tensor:
    return pick.choice(list(shapes.arrangements(width, dtype, shapes.values)))


# ------------------------------------------------------------------ sizes of a model
def of_model(tokens: int, dtype: torch.dtype, hidden: int, heads: int, head: int) -> Iterator[Case]:
    """The ops of a decoder layer with rows of `hidden`, an inner width of 3 x that."""
    x, residual = (shapes.values((tokens, hidden), dtype, i) for i in (1, 2))
    gate, up = (shapes.values((tokens, 3 * hidden), dtype, i) for i in (3, 4))
    weight = shapes.values((hidden,), dtype, 5)
    q = shapes.values((1, tokens, heads, head), dtype, 6)
    k = shapes.values((1, tokens, heads // 2, head), dtype, 7)
    w, cos, sin = (
        shapes.values(s, dtype, 8) for s in ((head,), (1, tokens, head), (1, tokens, head))
    )
    yield Case("rms_norm", "cast_then_weight", dtype, (x, weight, 1e-6))
    yield Case("add_rms_norm", "add_then_norm", dtype, (x, residual, weight, 1e-6, 0))
    given = (x, residual, weight, weight.flip(0), 1e-5, hidden)
    yield Case("add_layer_norm", "add_then_norm", dtype, given)
    silu = list(activations.ACTS).index("SILU")
    yield Case("act_mul", "two_inputs", dtype, (silu, gate, up))
    yield Case("softcap", "in_its_dtype", dtype, (gate, 30.0))
    given = (q.transpose(1, 2), k.transpose(1, 2), cos, sin, 1)
    yield Case("rope", "half_both", dtype, given)
    given = (q, k, w, 1e-6, 0, w.clone(), 1e-6, 0, cos, sin, 1)
    yield Case("qk_norm_rope", "norm_transpose_rope", dtype, given)
