"""Each op by itself against the rule's reference, eager and under torch.compile: CPU time, 1 thread.

T is the number of tokens; the sizes are those of bench/model.py. The op is called as rewritten
files call it, through tfrewrite.ops, on the same tensors again and again, so they are in the caches;
but the weights of linears are not. Each row compares the results too. Run it through
`cmake --build build/bench --target bench-ops`, or with TFR_BIN set: python bench/ops.py
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import timing
import torch
import torch.nn.functional as F
from model import CONFIG, load_rewritten, original
from tfrewrite import ops, rules
from torch import Tensor, nn

EPS = 1e-6
HIDDEN, INNER, VOCAB = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["vocab_size"]
HEADS, KV_HEADS = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
HEAD = CONFIG["head_dim"]
GOALS = {"add_rms_norm": 3.0, "qk_norm_rope": 15.0, "act_mul": 1.8}  # at T=128, float32, eager
TOKENS, LINEAR_TOKENS = (1, 128, 512), (1, 4, 128, 512)
COLD = 128 << 20  # more than the last cache holds
MAX_LM_HEAD = 4  # torch's bfloat16 lm_head takes seconds at more rows


@dataclass
class Bench:
    """One op on given tensors."""

    name: str
    tokens: int
    dtype: torch.dtype
    tfr: Callable[[], Any]
    reference: Callable[..., Any]  # takes what `arguments` gives, so that torch.compile sees them
    arguments: Callable[[], tuple[Any, ...]]

    @property
    def goal(self) -> float | None:
        at_goal = self.tokens == 128 and self.dtype == torch.float32
        return GOALS.get(self.name) if at_goal else None


def reference(op: str, variant: str) -> Callable[..., Any]:
    (found,) = (v.function for v in rules.load()[op].variants if v.name == variant)
    return found


def elementwise(tokens: int, dtype: torch.dtype, modules: Any) -> Iterator[Bench]:
    def random(*size: int) -> Tensor:
        return torch.randn(size).to(dtype)

    def bench(name: str, tfr: Callable[[], Any], function: Callable[..., Any], *arguments: Any):
        return Bench(name, tokens, dtype, tfr, function, lambda: arguments)

    x, residual, weight = random(1, tokens, HIDDEN), random(1, tokens, HIDDEN), random(HIDDEN)
    for order, variant in (
        ("cast_weight", "cast_then_weight"),
        ("one_plus_cast", "one_plus_weight_then_cast"),
    ):
        yield bench(
            f"rms_norm {order}",
            lambda order=order: ops.rms_norm(x, weight, EPS, order=order),
            reference("rms_norm", variant),
            *(x, weight, EPS),
        )
    norm, plain_norm = norms(modules, HIDDEN, dtype)
    yield bench(
        "add_rms_norm",
        lambda: ops.add_rms_norm(x, residual, norm),
        lambda x, residual: reference_add_norm(x, residual, plain_norm),
        *(x, residual),
    )
    gate, up, silu = random(1, tokens, INNER), random(1, tokens, INNER), nn.SiLU()
    yield bench(
        "act_mul",
        lambda: ops.act_mul(silu, gate, up),
        lambda gate, up: silu(gate) * up,
        *(gate, up),
    )
    yield bench(
        "act_mul gelu_tanh",
        lambda: ops.act_mul(gate, up, function="gelu_tanh"),
        reference("act_mul", "gelu_tanh_function"),
        *(gate, up),
    )
    logits = random(1, tokens, INNER) * 30
    yield bench(
        "softcap",
        lambda: ops.softcap(logits, 30.0),
        reference("softcap", "in_its_dtype"),
        *(logits, 30.0),
    )
    q, k = random(1, tokens, HEADS, HEAD), random(1, tokens, KV_HEADS, HEAD)
    yield bench(
        "l2_norm",
        lambda: ops.l2_norm(q, form="rsqrt", eps=EPS, cast="float32"),
        reference("l2_norm", "by_rsqrt_in_float32"),
        *(q, EPS),
    )
    cos, sin = random(1, tokens, HEAD), random(1, tokens, HEAD)
    (q_norm, plain_q), (k_norm, plain_k) = (norms(modules, HEAD, dtype) for _ in range(2))
    qt, kt = q.transpose(1, 2), k.transpose(1, 2)
    yield bench(
        "rope",
        lambda: ops.rope(qt, kt, cos, sin, layout="half", unsqueeze_dim=1),
        original.apply_rotary_pos_emb,
        *(qt, kt, cos, sin),
    )
    yield bench(
        "qk_norm_rope",
        lambda: ops.qk_norm_rope(
            q, k, q_norm, k_norm, cos, sin, layout="half", unsqueeze_dim=1, out="bhsd"
        ),
        lambda q, k, cos, sin: original.apply_rotary_pos_emb(
            plain_q(q).transpose(1, 2), plain_k(k).transpose(1, 2), cos, sin
        ),
        *(q, k, cos, sin),
    )


def reference_add_norm(x: Tensor, residual: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
    total = residual + x
    return norm(total), total


def norms(modules: Any, width: int, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """The rewritten file's norm and the original's, with the same weight."""
    pair = modules.Qwen3RMSNorm(width, EPS), original.Qwen3RMSNorm(width, EPS)
    nn.init.normal_(pair[0].weight, 1.0, 0.2)
    pair[1].load_state_dict(pair[0].state_dict())
    return pair[0].to(dtype), pair[1].to(dtype)


def linear(tokens: int, dtype: torch.dtype) -> Iterator[Bench]:
    """Weights come from memory, as in a model: copies used in turn fill COLD bytes."""

    def copies(inner: int, *outer: int) -> list[list[nn.Linear]]:
        bytes_each = inner * sum(outer) * dtype.itemsize
        count = -(-COLD // bytes_each)
        return [
            [nn.Linear(inner, size, bias=False, dtype=dtype) for size in outer]
            for _ in range(count)
        ]

    def merged(name: str, *sizes: int) -> Bench:
        x, layers = torch.randn(1, tokens, HIDDEN).to(dtype), copies(HIDDEN, *sizes)
        ours, theirs = cycle(layers), cycle([[one.weight for one in set_] for set_ in layers])
        return Bench(
            f"linears {name}",
            tokens,
            dtype,
            lambda: ops.linears(x, *next(ours)),
            lambda x, *weights: tuple(F.linear(x, weight) for weight in weights),
            lambda: (x, *next(theirs)),
        )

    def single(name: str, inner: int, outer: int) -> Bench:
        x, layers = torch.randn(1, tokens, inner).to(dtype), copies(inner, outer)
        ours, theirs = cycle([one for (one,) in layers]), cycle([one.weight for (one,) in layers])
        return Bench(
            f"linear {name}",
            tokens,
            dtype,
            lambda: ops.linear(x, next(ours)),
            F.linear,
            lambda: (x, next(theirs)),
        )

    yield merged("q, k, v", HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD)
    yield merged("gate, up", INNER, INNER)
    yield single("o_proj", HEADS * HEAD, HIDDEN)
    yield single("down_proj", INNER, HIDDEN)
    if tokens <= MAX_LM_HEAD:
        yield single("lm_head", HIDDEN, VOCAB)


# ------------------------------------------------------------------ one row
@dataclass
class Row:
    op: str
    tokens: int
    dtype: str
    eager_us: float
    tfr_us: float
    compiled_us: float | None
    over_eager: float
    over_compiled: float | None
    spread: float
    goal: float | None
    equal: float  # share of equal elements, against eager
    largest: float  # largest difference over the largest magnitude
    path: str


def tensors(value: Any) -> tuple[Tensor, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def difference(want: Any, got: Any) -> tuple[float, float]:
    pairs = list(zip(tensors(want), tensors(got), strict=True))
    equal = sum((a == b).sum().item() for a, b in pairs) / sum(a.numel() for a, _ in pairs)
    largest = max(
        ((a.double() - b.double()).abs().max() / a.double().abs().max()).item() for a, b in pairs
    )
    return equal, largest


def measure(bench: Bench, args: argparse.Namespace) -> Row:
    eager = bench.reference
    calls = {"eager": lambda: eager(*bench.arguments()), "tfr": bench.tfr}
    if args.compile:
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False)
        calls["compiled"] = lambda: compiled(*bench.arguments())
    with ops.record() as counter:
        equal, largest = difference(calls["eager"](), bench.tfr())  # the first copy of weights
    path = ", ".join(sorted({path for _op, _variant, path in counter}))
    times = timing.in_turn(calls, args.rounds, sample=args.sample)
    us = {name: time.median * 1e6 for name, time in times.items()}
    ratios = timing.Times(times["eager"].ratios(times["tfr"]))
    return Row(
        bench.name,
        bench.tokens,
        str(bench.dtype)[6:],
        us["eager"],
        us["tfr"],
        us.get("compiled"),
        ratios.median,
        times["compiled"].over(times["tfr"]) if args.compile else None,
        ratios.spread,
        bench.goal,
        equal,
        largest,
        path,
    )


def cells(row: Row) -> list[str]:
    """One line of the table."""
    line = [row.op, str(row.tokens), row.dtype]
    line += [timing.short(row.eager_us / 1e6), timing.short(row.tfr_us / 1e6)]
    line += [timing.short(row.compiled_us / 1e6) if row.compiled_us else ""]
    line += [f"{row.over_eager:.2f}x", f"{row.over_compiled:.2f}x" if row.over_compiled else ""]
    line += [f"{row.spread:.0%}", f"{row.goal}x" if row.goal else ""]
    line += [timing.verdict(row.over_eager, row.goal)]
    return [*line, f"{row.equal:.2%}", f"{row.largest:.1e}", row.path]


def benches(args: argparse.Namespace, modules: Any) -> Iterator[Bench]:
    for dtype in (torch.float32, torch.bfloat16):
        for tokens in TOKENS:
            yield from elementwise(tokens, dtype, modules)
    for dtype in (torch.float32, torch.bfloat16):
        for tokens in LINEAR_TOKENS:
            yield from linear(tokens, dtype)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sample", type=float, default=0.02, help="seconds that short calls fill")
    parser.add_argument("--only", default="", help="ops whose name starts so, e.g. act_mul,linear")
    parser.add_argument("--tokens", type=int, action="append", help="only these T")
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=True, help="torch.compile too"
    )
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--check", action="store_true", help="exit 1 if a goal is missed")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.empty(30 << 20, dtype=torch.uint8)  # glibc: freed pages stay, as after loading a model
    rows = []
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        modules = load_rewritten(Path(folder))
        for bench in benches(args, modules):
            wanted = bench.name.startswith(tuple(args.only.split(",")))
            if wanted and (not args.tokens or bench.tokens in args.tokens):
                rows.append(measure(bench, args))
                print(f"  {' '.join(cells(rows[-1]))}", file=sys.stderr, flush=True)
    head = ["op", "T", "dtype", "eager", "tfr", "compiled", "/ eager", "/ compiled", "spread"]
    head += ["goal", "", "equal", "largest", "path"]
    timing.table(
        "CPU time of one call, one thread; how many times as fast", head, list(map(cells, rows))
    )
    if args.json:
        timing.write_json(args.json, [asdict(row) for row in rows])
    missed = any(row.goal and row.over_eager < row.goal for row in rows)
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
