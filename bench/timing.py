"""What the benchmarks in Python share: CPU time of calls run in turn, and how results are printed.

Candidates run one after another, round after round, each other round in the opposite order (ABBA),
so that a busy or slowly changing machine treats them alike. Figures are CPU time of the whole
process (wall time where several threads are measured), medians over rounds; ratios are medians of
the rounds' own ratios. It knows nothing about what runs.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Compiling in the background would be counted as time of whatever runs meanwhile.
os.environ.setdefault("TFR_JIT", "sync")

Call = Callable[[], Any]
Clock = Callable[[], int]  # nanoseconds


def nothing() -> None: ...


@dataclass(frozen=True)
class Candidate:
    """`call` is timed; `reset` runs before it, untimed."""

    call: Call
    reset: Call = nothing


@dataclass
class Times:
    """Seconds of one candidate, one entry per round."""

    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        return _half_quartiles(self.seconds)

    def over(self, other: Times) -> float:
        """How many times as long as `other` this takes."""
        return statistics.median(self.ratios(other))

    def ratios(self, other: Times) -> list[float]:
        return [a / b for a, b in zip(self.seconds, other.seconds)]


def _half_quartiles(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(values)


def seconds(call: Call, repeat: int = 1, clock: Clock = time.process_time_ns) -> float:
    """One of `repeat` calls; by default CPU time, all threads together."""
    start = clock()
    for _ in range(repeat):
        call()
    return (clock() - start) / 1e9 / repeat


def repeats(call: Call, sample: float) -> int:
    """How many calls fill about `sample` seconds of CPU. `call` should be warm."""
    count = 1
    while True:
        took = seconds(call, count) * count
        if took * 4 > sample or count > 1 << 24:
            return max(1, round(count * sample / max(took, 1e-9)))
        count *= 4


def in_turn(
    candidates: Mapping[str, Candidate | Call],
    rounds: int,
    warm_up: int = 1,
    sample: float | None = None,
    clock: Clock = time.process_time_ns,
) -> dict[str, Times]:
    """The rounds' times of each candidate. `sample`: seconds that repeated short calls fill."""
    known = {n: c if isinstance(c, Candidate) else Candidate(c) for n, c in candidates.items()}
    for _ in range(warm_up):
        for candidate in known.values():
            candidate.reset()
            candidate.call()
    counts = {n: 1 if sample is None else repeats(c.call, sample) for n, c in known.items()}
    times = {name: Times() for name in known}
    for number in range(rounds):
        order = list(known.items())
        for name, candidate in order if number % 2 == 0 else reversed(order):
            candidate.reset()
            times[name].seconds.append(seconds(candidate.call, counts[name], clock))
    return times


def verdict(value: float, goal: float | None, at_most: bool = False) -> str:
    if goal is None:
        return ""
    return "met" if (value <= goal if at_most else value >= goal) else "MISSED"


def short(seconds: float) -> str:
    """12.3 ms, 4.56 us: three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            value = seconds * scale
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    raise AssertionError


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """First and last column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    print(f"\n{title}", flush=True)
    for row in (head, *rows):
        cells = [c.rjust(w) for c, w in zip(row, widths)]
        cells[0], cells[-1] = row[0].ljust(widths[0]), row[-1]
        print("  " + "  ".join(cells).rstrip(), flush=True)


def machine() -> dict[str, Any]:
    """Where the figures come from, for --json."""
    import torch

    return {
        "cpu": _cpu_model(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "")


def write_json(path: Path, results: Any) -> None:
    path.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")
