"""Checks and measures tfrewrite's CUDA kernels on a machine with a GPU; README.md says what it needs.

    python tests/gpu/run.py                   all sections, under 8 minutes; writes gpu.json
    python tests/gpu/run.py --only numerics   some of them
    python tests/gpu/run.py --simulated       in small on tests/ptxsim: a test of this program

Each section (sections.py) is a process of its own with a time limit: one that fails, hangs or
loses the device leaves the others alone. Exits 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

SECONDS = 450  # for all of them; starting processes takes the rest of 8 minutes

# Seconds that each may take on a GPU, and why it says nothing on the simulated device.
TORCH_NEEDS_A_GPU = "torch itself needs a real device for this"
NO_TIMES = "the simulator's times are no GPU's"
SECTIONS: dict[str, tuple[int, str]] = {
    "environment": (30, ""),
    "numerics": (110, ""),
    "simulator": (70, ""),
    "memory": (40, ""),
    "capture": (30, TORCH_NEEDS_A_GPU),
    "compiled": (60, TORCH_NEEDS_A_GPU),
    "bandwidth": (30, NO_TIMES),
    "comparison": (70, NO_TIMES),
    "model": (60, ""),
}


def run_section(name: str, simulated: bool, folder: Path, end: float) -> dict[str, Any]:
    """What the section's process wrote, or how it ended."""
    seconds, why_skipped = SECTIONS[name]
    seconds = int(min(seconds, end - time.monotonic()))
    if seconds < 10:
        reason = f"the {SECONDS} s for all sections are over"
        return {"section": name, "status": "short", "problems": [], "reason": reason}
    if simulated and why_skipped:
        return {"section": name, "status": "skipped", "problems": [], "reason": why_skipped}
    if simulated:
        seconds = 300  # of a busy machine that may have to compile
    out, log = folder / f"{name}.json", folder / f"{name}.log"
    command = [sys.executable, str(HERE / "sections.py"), name, str(out), str(seconds)]
    start = time.monotonic()
    with log.open("w") as written:
        try:
            status = subprocess.run(
                command + ["--simulated", "--small"] * simulated,
                timeout=seconds + 20,
                stdout=written,
                stderr=subprocess.STDOUT,
                env=environment(),
            ).returncode
        except subprocess.TimeoutExpired:
            status = f"no result after {seconds + 20} s"
    took = round(time.monotonic() - start, 1)
    if status == 0 and out.exists():
        result = json.loads(out.read_text())
    else:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        result = {"status": "failed", "problems": [f"its process ended with {status}", *tail]}
    return {"section": name, "seconds": took, "budget": seconds, **result}


def environment() -> dict[str, str]:
    found = dict(os.environ)
    found["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "python"), *filter(None, [found.get("PYTHONPATH")])]
    )
    found.setdefault("HF_HUB_OFFLINE", "1")
    built = sorted(ROOT.glob("build/*/tfrewrite"), key=lambda path: path.stat().st_mtime)
    if built:
        found.setdefault("TFR_BIN", str(built[-1]))
    return found


# ------------------------------------------------------------------ what is shown
def show(result: dict[str, Any]) -> None:
    head = f"{result['section']:<12} {result['status']:<8}"
    print(f"{head} {result.get('seconds', 0):6.1f} s  {result.get('reason', '')}", flush=True)
    for line in result["problems"][:20]:
        print(f"    {line}")
    rows = [{k: shown(v) for k, v in row.items()} for row in result.get("rows", [])]
    for names, group in by_columns(rows):
        widths = [max(len(n), *(len(row[n]) for row in group)) for n in names]
        for cells in (names, *([row[n] for n in names] for row in group)):
            print("    " + "  ".join(c.ljust(w) for c, w in zip(cells, widths)).rstrip())


def by_columns(rows: list[dict[str, str]]) -> list[tuple[list[str], list[dict[str, str]]]]:
    groups: list[tuple[list[str], list[dict[str, str]]]] = []
    for row in rows:
        if not groups or groups[-1][0] != list(row):
            groups.append((list(row), []))
        groups[-1][1].append(row)
    return groups


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulated", action="store_true", help="on tests/ptxsim, without a GPU")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"), help="where results go")
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    results = []
    end = time.monotonic() + (1e6 if args.simulated else SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            results.append(run_section(name, args.simulated, Path(folder), end))
            show(results[-1])
    failed = [r["section"] for r in results if r["status"] == "failed"]
    written = {"device": "simulated" if args.simulated else "gpu", "sections": results}
    args.json.write_text(json.dumps(written, indent=1) + "\n")
    print(f"{args.json}: " + (f"failed: {', '.join(failed)}" if failed else "nothing failed"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
