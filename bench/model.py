"""A Qwen3-shaped model, original and rewritten in turn in one process: CPU time, outputs, paths.

Qwen3-0.6B's sizes, but 8 layers, with random weights; one thread, unless asked for more. Each case
compares the outputs in the same run: float32 against the original, bfloat16 by the error against
float32 with the same weights; greedy tokens with the original's prefix (teacher-forced). Run it
through `cmake --build build/bench --target bench-model`, or with TFR_BIN set: python bench/model.py
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import breakdown
import tfrewrite
import timing
import torch
from tfrewrite import ops
from timing import Candidate
from torch import Tensor, nn
from transformers import DynamicCache, Qwen3Config
from transformers.models.qwen3 import modeling_qwen3 as original

CONFIG = dict(
    vocab_size=151936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=8,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=1024,
    tie_word_embeddings=True,
)
PROMPT, STEPS = 128, 8
COMPARED = 16  # prefill: logits of the last positions are compared (all of them would be 78 MB)
MAX_REL = 1e-5  # float32: largest difference over the largest magnitude
MAX_ERROR_RATIO = 1.1  # bfloat16: error against float32, over the original's


@dataclass(frozen=True)
class Case:
    dtype: torch.dtype
    batch: int
    decode: bool
    goal: float | None
    aim: float | None = None
    keep: int = 1  # prefill: logits of how many last positions; `generate` wants 1, 0 is all

    @property
    def name(self) -> str:
        kind = f"decode-b{self.batch}" if self.decode else f"prefill-{PROMPT}"
        dtype = "bf16" if self.dtype == torch.bfloat16 else "f32"
        return f"{dtype}-{kind}{'' if self.keep else '-all'}"


BF16, F32 = torch.bfloat16, torch.float32
CASES = [
    Case(F32, 1, False, goal=1.0),
    Case(F32, 1, False, goal=1.0, keep=0),
    Case(F32, 1, True, goal=1.2, aim=1.4),
    Case(F32, 4, True, goal=1.2, aim=1.4),
    Case(BF16, 1, False, goal=3.0, aim=3.8),
    Case(BF16, 1, False, goal=3.0, aim=3.8, keep=0),
    Case(BF16, 1, True, goal=1.35, aim=1.8),
    Case(BF16, 4, True, goal=2.0, aim=2.5),
]


# ------------------------------------------------------------------ the two models
def load_rewritten(folder: Path) -> ModuleType:
    """The rewritten file as a module beside the original, so that its relative imports work."""
    source = Path(original.__file__)
    # The same last folders: Transformers' docstring decorators read them.
    path = folder / "transformers" / "models" / "qwen3" / source.name
    path.parent.mkdir(parents=True)
    path.write_bytes(tfrewrite.rewrite(source, target="host").data)
    name = "transformers.models.qwen3.modeling_qwen3_rewritten"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def make(classes: list[type[nn.Module]]) -> list[nn.Module]:
    """Models with the same random weights; norm weights not all 1, so that their place matters."""
    torch.manual_seed(0)
    made = [cls(Qwen3Config(**CONFIG)).eval() for cls in classes]
    for parameter in made[0].parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, 1.0, 0.2)
    for model in made[1:]:
        model.load_state_dict(made[0].state_dict())
    return made


def cast(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The parameters alone, as from_pretrained does: rope's frequencies stay float32."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def prepare(model: nn.Module) -> nn.Module:
    tfrewrite.prepare(model)
    return model


# ------------------------------------------------------------------ running a case
class Run:
    """One model doing one case again and again, from the same state."""

    def __init__(self, model: Callable[..., Any], config: Qwen3Config, case: Case) -> None:
        self.model, self.config, self.case = model, config, case
        generator = torch.Generator().manual_seed(1)
        size = (case.batch, PROMPT + STEPS)
        self.ids = torch.randint(0, config.vocab_size, size, generator=generator)
        self.cache = DynamicCache(config=config)
        if case.decode:
            self._forward(self.ids[:, :PROMPT])

    def _forward(self, ids: Tensor, keep: int = 1) -> Tensor:
        return self.model(ids, cache=self.cache, use_cache=True, logits_to_keep=keep).logits

    def reset(self) -> None:
        if self.case.decode:
            extra = self.cache.get_seq_length() - PROMPT
            if extra:
                self.cache.crop(-extra)
        else:
            self.cache = DynamicCache(config=self.config)

    def __call__(self, keep: int | None = None) -> Tensor:
        if not self.case.decode:
            return self._forward(self.ids[:, :PROMPT], self.case.keep if keep is None else keep)
        steps = [self._forward(self.ids[:, i : i + 1]) for i in range(PROMPT, PROMPT + STEPS)]
        return torch.cat(steps, 1)

    def timed(self) -> None:
        if not self.case.decode:
            self()
            return
        for i in range(PROMPT, PROMPT + STEPS):  # without the cat of logits
            self._forward(self.ids[:, i : i + 1])

    def logits(self) -> Tensor:
        self.reset()
        return self(keep=COMPARED)

    def candidate(self) -> Candidate:
        return Candidate(self.timed, self.reset)


def paths(run: Run) -> dict[str, str]:
    """Which path each op took in one run: {"rms_norm": "17 jit"}."""
    run.reset()
    with ops.record() as counter:
        run.timed()
    calls: dict[str, Counter[str]] = {}
    for (op, _variant, path), count in counter.items():
        calls.setdefault(op, Counter())[path] += count
    return {
        op: " + ".join(f"{count} {path}" for path, count in sorted(by.items()))
        for op, by in sorted(calls.items())
    }


# ------------------------------------------------------------------ are the outputs equal?
@dataclass
class Agreement:
    good: bool
    text: str


def rms(x: Tensor) -> float:
    return x.double().pow(2).mean().sqrt().item()


def compare(case: Case, want: Tensor, got: Tensor, exact: Tensor | None) -> Agreement:
    largest = (want.double() - got.double()).abs().max().item()
    if exact is None:
        value = largest / want.double().abs().max().item()
        good, text = value <= MAX_REL, f"rel {value:.1e}"
    else:
        value = rms(got.float() - exact) / rms(want.float() - exact)
        good, text = value <= MAX_ERROR_RATIO, f"error x{value:.3f}"
    first, second = want.argmax(-1), got.argmax(-1)
    # Tokens may part where the original's two logits are closer than the two models are.
    gap = want.gather(-1, first[..., None]) - want.gather(-1, second[..., None])
    tied = (gap.double().squeeze(-1) <= 2 * largest) | (first == second)
    same = (first == second).sum().item()
    text += f", {same}/{first.numel()} tokens"
    return Agreement(bool(good and tied.all() and got.isfinite().all()), text)


# ------------------------------------------------------------------ the benchmark
@dataclass
class Row:
    case: str
    original_ms: float
    rewritten_ms: float
    ratio: float
    spread: float  # of the ratio, half the distance between the quartiles
    goal: float | None
    aim: float | None
    compiled_ms: float | None
    outputs: str
    good: bool
    paths: dict[str, str]

    @property
    def met(self) -> bool:
        return self.good and (self.goal is None or self.ratio >= self.goal)


def measure(case: Case, runs: dict[str, Run], exact: Tensor | None, args: Any) -> Row:
    agreement = compare(case, runs["original"].logits(), runs["rewritten"].logits(), exact)
    took = paths(runs["rewritten"])
    candidates = {name: run.candidate() for name, run in runs.items()}
    clock = time.process_time_ns if args.threads == 1 else time.perf_counter_ns
    times = timing.in_turn(candidates, args.rounds, clock=clock)
    calls = STEPS if case.decode else 1
    ms = {name: t.median * 1e3 / calls for name, t in times.items()}
    ratios = timing.Times(times["original"].ratios(times["rewritten"]))
    return Row(
        case.name,
        ms["original"],
        ms["rewritten"],
        ratios.median,
        ratios.spread,
        case.goal,
        case.aim,
        ms.get("compiled"),
        agreement.text,
        agreement.good,
        took,
    )


def by_dtype(cases: list[Case]) -> Iterator[tuple[torch.dtype, list[Case]]]:
    for dtype in (F32, BF16):
        if chosen := [case for case in cases if case.dtype == dtype]:
            yield dtype, chosen


def run_all(args: argparse.Namespace, cases: list[Case], folder: Path) -> list[Row]:
    first, second = make([original.Qwen3ForCausalLM, load_rewritten(folder).Qwen3ForCausalLM])
    rows = []
    for dtype, chosen in by_dtype(cases):
        exact: dict[str, Tensor] = {}
        if dtype != F32:  # what the rounded weights give without further rounding
            cast(cast(first, dtype), F32)
            exact = {case.name: Run(first, first.config, case).logits() for case in chosen}
        cast(first, dtype)
        prepare(cast(second, dtype))
        models: dict[str, Callable[..., Any]] = {"original": first, "rewritten": second}
        if args.compile:
            models["compiled"] = torch.compile(first, dynamic=True)
        for case in chosen:
            runs = {name: Run(model, first.config, case) for name, model in models.items()}
            rows.append(measure(case, runs, exact.get(case.name), args))
            print(f"  {case.name}: {rows[-1].ratio:.2f}x", file=sys.stderr, flush=True)
    return rows


def show(rows: list[Row], compiled: bool, threads: int) -> None:
    how = "one thread, ms of CPU" if threads == 1 else f"{threads} threads, ms of wall time"
    head = ["case", "original", "rewritten", "ratio", "spread", "goal", "aim", ""]
    if compiled:
        head.append("torch.compile")
    head.append("outputs")
    body = []
    for row in rows:
        cells = [row.case, f"{row.original_ms:.1f}", f"{row.rewritten_ms:.1f}", f"{row.ratio:.2f}x"]
        cells += [f"{row.spread:.0%}", f"{row.goal:.2f}x", f"{row.aim:.2f}x" if row.aim else ""]
        cells.append(timing.verdict(row.ratio, row.goal))
        if compiled:
            cells.append(f"{row.compiled_ms:.1f}")
        body.append([*cells, row.outputs if row.good else f"{row.outputs} NOT GOOD ENOUGH"])
    title = f"Qwen3 with {CONFIG['num_hidden_layers']} layers, {how}"
    timing.table(f"{title}; decode: one step after {PROMPT} tokens", head, body)
    timing.table(
        f"calls of one run (decode: {STEPS} steps) by the path that ran",
        ["case", "paths"],
        [[row.case, ", ".join(f"{op} {how}" for op, how in row.paths.items())] for row in rows],
    )


def profile(args: argparse.Namespace, cases: list[Case], folder: Path) -> dict[str, Any]:
    module = original if args.profile == "original" else load_rewritten(folder)
    (model,) = make([module.Qwen3ForCausalLM])
    found = {}
    for dtype, chosen in by_dtype(cases):
        cast(model, dtype)
        if args.profile == "rewritten":
            prepare(model)
        for case in chosen:
            calls = STEPS if case.decode else 1
            run = Run(model, model.config, case)
            found[case.name] = breakdown.measure(
                run.candidate(), module.__file__, model.lm_head.weight, calls, args.rounds
            )
            breakdown.show(f"{args.profile}, {case.name}", found[case.name])
    return found


def main() -> int:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="with more than 1: wall time")
    parser.add_argument("--cases", default=",".join(names), help="default: %(default)s")
    parser.add_argument("--compile", action="store_true", help="also torch.compile of the original")
    parser.add_argument(
        "--profile",
        nargs="?",
        const="original",
        choices=("original", "rewritten"),
        help="where the time of one model goes, instead of the comparison",
    )
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--check", action="store_true", help="exit 1 if a goal is missed")
    args = parser.parse_args()
    wanted = args.cases.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"no case {', '.join(sorted(unknown))}")
    cases = [case for case in CASES if case.name in wanted]
    torch.set_num_threads(args.threads)
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        if args.profile:
            results: Any = profile(args, cases, Path(folder))
            good = met = True
        else:
            rows = run_all(args, cases, Path(folder))
            show(rows, args.compile, args.threads)
            results = [asdict(row) for row in rows]
            good, met = all(row.good for row in rows), all(row.met for row in rows)
    if args.json:
        timing.write_json(args.json, results)
    return 0 if good and (met or not args.check) else 1


if __name__ == "__main__":
    sys.exit(main())
