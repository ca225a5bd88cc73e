"""CPU time and peak memory of whole `tfrewrite` processes, beside Python's own parser and LibCST.

All rows of a table are run in turn, round after round, so that a busy machine slows them alike; each
figure is the median of the rounds. Run through `cmake --workflow --preset bench`, or with TFR_BIN set:
python bench/rewrite.py --measure PATH [--runs N] [--corpus] [--whole] [--check].
"""

import argparse
import os
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

# The goals of the project for the optimised build.
FILE_CPU_MS, FILE_PEAK_MB, CORPUS_CPU_S = 15, 16, 8
AST = "import ast, sys\nfor p in sys.argv[1:]: ast.parse(open(p, 'rb').read())"
LIBCST = "import libcst, sys\nfor p in sys.argv[1:]: libcst.parse_module(open(p, 'rb').read())"
SAMPLE_EVERY = 10  # LibCST parses each tenth file of the corpus; its time is scaled by bytes


def measure(program: Path, command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MB of one run."""
    out = subprocess.run([program, *command], check=True, capture_output=True, text=True).stdout
    cpu, peak, status = map(int, out.split())
    if status != 0:
        sys.exit(f"exit status {status}: {' '.join(command)[:200]}")
    return cpu / 1e6, peak / 1024


def rounds(
    program: Path, rows: dict[str, list[str]], runs: int, warm_up: int = 0
) -> dict[str, tuple[float, float]]:
    """Median CPU seconds and peak MB for each row; the first `warm_up` rounds do not count."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    for number in range(warm_up + runs):
        for name, command in rows.items():
            result = measure(program, command)
            if number >= warm_up:
                seen[name].append(result)
    return {
        name: (statistics.median(c for c, _ in found), statistics.median(p for _, p in found))
        for name, found in seen.items()
    }


def table(title: str, rows: list[tuple[str, str, str]]) -> None:
    print(f"\n{title}")
    for name, cpu, peak in rows:
        print(f"  {name:<44} {cpu:>12} {peak:>10}")


def verdict(name: str, value: float, goal: float, unit: str) -> bool:
    met = value <= goal
    print(f"  goal {name} <= {goal} {unit}: {value:.1f} {unit}, {'met' if met else 'MISSED'}")
    return met


def one_file(args: argparse.Namespace, models: Path) -> bool:
    file = str(models / "qwen3" / "modeling_qwen3.py")
    rows = {
        "tfrewrite FILE": [os.environ["TFR_BIN"], file],
        "python, nothing to do": [sys.executable, "-c", "pass"],
        "python, ast.parse": [sys.executable, "-c", AST, file],
        "python, LibCST parse": [sys.executable, "-c", LIBCST, file],
    }
    found = rounds(args.measure, rows, args.runs, warm_up=1)
    table(
        f"modeling_qwen3.py ({os.path.getsize(file) / 1e3:.0f} kB), whole process, "
        f"median of {args.runs} runs: CPU, peak memory",
        [(n, f"{cpu * 1e3:.1f} ms", f"{peak:.1f} MB") for n, (cpu, peak) in found.items()],
    )
    cpu, peak = found["tfrewrite FILE"]
    cpu_met = verdict("CPU", cpu * 1e3, FILE_CPU_MS, "ms")
    return verdict("memory", peak, FILE_PEAK_MB, "MB") and cpu_met


def corpus(args: argparse.Namespace, models: Path) -> bool:
    files = sorted(models.rglob("modeling_*.py"))
    sample = files if args.whole else files[::SAMPLE_EVERY]
    size, sample_size = (sum(p.stat().st_size for p in group) for group in (files, sample))
    rows = {
        "tfrewrite --json DIR": [os.environ["TFR_BIN"], "--json", str(models)],
        "python, ast.parse": [sys.executable, "-c", AST, *map(str, files)],
        "python, LibCST parse": [sys.executable, "-c", LIBCST, *map(str, sample)],
    }
    found = rounds(args.measure, rows, 1 if args.whole else 2)
    cpu, peak = found.pop("python, LibCST parse")
    name = "python, LibCST parse"
    if not args.whole:
        name += f" ({len(sample)} files, scaled)"
    found[name] = cpu * size / sample_size, peak
    table(
        f"{len(files)} modeling files ({size / 1e6:.1f} MB), one thread: CPU, MB/s",
        [(n, f"{cpu:.2f} s", f"{size / 1e6 / cpu:.2f}") for n, (cpu, _) in found.items()],
    )
    return verdict("corpus CPU", found["tfrewrite --json DIR"][0], CORPUS_CPU_S, "s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=Path, required=True, help="the built bench/measure.c")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--corpus", action="store_true", help="also all modeling files")
    parser.add_argument("--whole", action="store_true", help="LibCST parses the whole corpus too")
    parser.add_argument("--check", action="store_true", help="exit 1 if a goal is missed")
    args = parser.parse_args()
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        sys.exit("transformers is not installed")
    models = Path(spec.origin).parent / "models"
    met = one_file(args, models)
    if args.corpus:
        met = corpus(args, models) and met
    return 1 if args.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
