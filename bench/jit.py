"""What a kernel costs before its first call: compiled, beside the bare compiler, and from the cache.

The kernels are those that `tfrewrite warmup` makes for Qwen3-0.6B's configuration. Each round
starts with an empty cache; bench/measure_jit.c asks jit/ for every kernel in one process (cold), then in a
second one (warm), and the compiler is run on the same sources with the same options, in turn. Run
it through `cmake --build build/bench --target bench-jit`, or with TFR_BIN set:
python bench/jit.py --measure PATH
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timing
from transformers import Qwen3Config
from transformers.models.qwen3 import modeling_qwen3 as original

COLD_GOAL = 1.1  # over the bare compiler, CPU time
HIT_GOAL_MS = 0.3  # before dlopen
FROM_DISK, COMPILED = 2, 3  # tfr_jit_origin
CONFIG = dict(
    hidden_size=1024,
    intermediate_size=3072,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=151936,
)


@dataclass
class Kernel:
    """Milliseconds."""

    label: str
    origin: int
    wall: float
    cpu: float  # of this process
    compiler: float  # CPU
    load_wall: float
    load_cpu: float

    @property
    def before_dlopen(self) -> float:
        return self.wall - self.load_wall


def warm_up(cache: Path) -> Path:
    """A cache with the kernels to measure; gives the folder of its entries."""
    config = cache.with_suffix(".json")
    config.write_text(Qwen3Config(**CONFIG).to_json_string())
    command = [os.environ.get("TFR_BIN", "tfrewrite"), "warmup", original.__file__]
    command += ["--config", str(config), "--arch", "host"]
    environment = os.environ | {"TFR_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return cache / "kernels"


def load(measure: Path, entries: Path, cache: Path) -> list[Kernel]:
    out = subprocess.check_output(
        [measure, "load", entries], env=os.environ | {"TFR_CACHE_DIR": str(cache)}, text=True
    )
    kernels = []
    for line in out.splitlines():
        origin, *times, label = line.split(" ", 6)
        kernels.append(Kernel(label, int(origin), *(int(t) / 1e6 for t in times)))
    return kernels


def compiler() -> str:
    """As jit/hostcc.c finds it."""
    named = os.environ.get("TFR_CC")
    for name in [named] if named else ["cc", "gcc", "clang"]:
        if found := shutil.which(name):
            return found
    sys.exit("no C compiler")


def compile_bare(source: Path, options: list[str], out: Path) -> tuple[float, float]:
    """Wall and CPU milliseconds of the compiler alone."""

    def cpu() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    command = [compiler(), *options, "-o", str(out), str(source)]
    before, start = cpu(), time.perf_counter()
    subprocess.run(command, check=True)
    return (time.perf_counter() - start) * 1e3, (cpu() - before) * 1e3


@dataclass
class Round:
    cold: list[Kernel]
    warm: list[Kernel]
    bare: list[tuple[float, float]]


def one_round(
    number: int, measure: Path, entries: Path, sources: list[tuple[Path, list[str]]], folder: Path
) -> Round:
    found: dict[str, Any] = {}
    cache = folder / f"cache{number}"
    cache.mkdir(mode=0o700)

    def ours() -> None:
        found["cold"] = load(measure, entries, cache)
        found["warm"] = load(measure, entries, cache)

    def theirs() -> None:
        found["bare"] = [compile_bare(*source, folder / "bare.so") for source in sources]

    order: list[Callable[[], None]] = [ours, theirs]
    for step in order if number % 2 == 0 else reversed(order):
        step()
    return Round(**found)


def medians(rounds: list[list[float]]) -> list[float]:
    """For each kernel, over the rounds."""
    return [statistics.median(values) for values in zip(*rounds, strict=True)]


def show(sources: list[str], rounds: list[Round]) -> dict[str, Any]:
    cold = medians([[k.cpu + k.compiler for k in r.cold] for r in rounds])
    cold_wall = medians([[k.wall for k in r.cold] for r in rounds])
    bare = medians([[cpu for _, cpu in r.bare] for r in rounds])
    bare_wall = medians([[wall for wall, _ in r.bare] for r in rounds])
    hit = medians([[k.before_dlopen for k in r.warm] for r in rounds])
    dlopen = medians([[k.load_wall for k in r.warm] for r in rounds])
    rows = [
        [f"{c:.0f}", f"{b:.0f}", f"{c / b:.3f}x", f"{h:.3f}", f"{d:.3f}", label]
        for label, c, b, h, d in zip(sources, cold, bare, hit, dlopen, strict=True)
    ]
    head = ["cold", "bare cc", "ratio", "hit", "dlopen", "kernel"]
    timing.table("ms: cold and bare cc CPU time, hit (before dlopen) and dlopen wall", head, rows)
    return {
        "cold_over_cc": sum(cold) / sum(bare),
        "cold_over_cc_wall": sum(cold_wall) / sum(bare_wall),
        "hit_ms": statistics.median(hit),
        "hit_ms_first": hit[0],  # with what is done once a process
        "hit_ms_largest": max(hit),
        "second_process_compiled": sum(k.origin != FROM_DISK for r in rounds for k in r.warm),
        "second_process_compiler_ms": sum(k.compiler for r in rounds for k in r.warm),
        "kernels": [dict(zip(head, row, strict=True)) for row in rows],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=Path, required=True, help="the built measure_jit.c")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--check", action="store_true", help="exit 1 if a goal is missed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entries = warm_up(folder / "warm")
        listed = subprocess.check_output([args.measure, "sources", entries, folder], text=True)
        lines = [line.split("\t") for line in listed.splitlines()]
        sources = [(folder / f"{i}.c", options.split()) for i, (_, options) in enumerate(lines)]
        rounds = [one_round(i, args.measure, entries, sources, folder) for i in range(args.rounds)]
    if any(kernel.origin != COMPILED for r in rounds for kernel in r.cold):
        sys.exit("a cold start found a kernel somewhere: is TFR_CACHE_RO set?")
    found = show([label for label, _ in lines], rounds)
    compiled = found["second_process_compiled"]
    goals = [
        ("cold over bare cc, CPU time", found["cold_over_cc"], COLD_GOAL, "x"),
        ("hit before dlopen, median", found["hit_ms"], HIT_GOAL_MS, " ms"),
        ("kernels that a second process compiled", compiled, 0, ""),
    ]
    print()
    for what, value, goal, unit in goals:
        met = timing.verdict(value, goal, at_most=True)
        print(f"  {what}: {value:.3g}{unit}, goal <= {goal}{unit}: {met}")
    print(f"  cold over bare cc, wall time: {found['cold_over_cc_wall']:.3g}x")
    print(f"  first hit of a process: {found['hit_ms_first']:.3g} ms")
    print(f"  largest hit: {found['hit_ms_largest']:.3g} ms")
    if args.json:
        timing.write_json(args.json, found)
    return 1 if args.check and any(value > goal for _, value, goal, _ in goals) else 0


if __name__ == "__main__":
    sys.exit(main())
