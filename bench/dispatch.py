"""What calling an op costs: tfr's C op beside the same op in C++, torch.add, and the Python call.

The tensors are so small ([1, 8]) that the work is nothing beside the call. The C++ op
(bench/dispatch_peer.cpp) has the schema of tfr::rms_norm, and makes one output in the same way. Run
it through `cmake --build build/bench --target bench-dispatch`, or with TFR_BIN set:
python bench/dispatch.py
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import timing
import torch
from tfrewrite import kernels, ops
from timing import Call

GOAL = 1.1  # tfr over C++
PEER = Path(__file__).with_name("dispatch_peer.cpp")
EPS = 1e-6


def build_peer(folder: Path) -> str | None:
    """Builds and loads the C++ op; gives the reason when that cannot be."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return "no C++ compiler (set CXX, or put c++ on PATH)"
    from torch.utils.cpp_extension import include_paths, library_paths

    out = folder / "libtfr_bench_peer.so"
    command = [compiler, "-std=c++20", "-O3", "-shared", "-fPIC", "-o", str(out), str(PEER)]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    for path in include_paths():
        command += ["-isystem", path]
    for path in library_paths():
        command += ["-L", path]
    done = subprocess.run(
        [*command, "-ltorch_cpu", "-lc10"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        return f"{compiler} failed: {said[0]}"
    torch.ops.load_library(str(out))
    return None


def calls(with_peer: bool) -> dict[str, Call]:
    x, weight = torch.randn(1, 8), torch.randn(8)
    tfr = kernels.get("rms_norm", "cast_then_weight")
    if tfr is None:
        sys.exit("the op has no kernel here: see the warning above, or TFR_OPS in the environment")
    python = ops.rms_norm
    found: dict[str, Call] = {"tfr op (C)": lambda: tfr(x, weight, EPS)}
    if with_peer:
        peer = torch.ops.tfr_bench_peer.rms_norm.default
        if not torch.allclose(peer(x, weight, EPS), tfr(x, weight, EPS), rtol=1e-5):
            sys.exit("the two ops do not compute the same")
        found["C++ op"] = lambda: peer(x, weight, EPS)
    found["torch.add"] = lambda: torch.add(x, weight)
    found["tfrewrite.ops.rms_norm"] = lambda: python(x, weight, EPS, order="cast_weight")
    found["empty Python call"] = lambda: None
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--check", action="store_true", help="exit 1 if the goal is missed")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        reason = build_peer(Path(folder))
    if reason is not None:
        print(f"skipped: the C++ op: {reason}", file=sys.stderr)
    found = calls(with_peer=reason is None)
    results, rows, met = {}, [], True
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            times = timing.in_turn(found, args.rounds, sample=0.02)
        tfr = times["tfr op (C)"]
        for name, time in times.items():
            ratio = tfr.over(time)
            cells = [
                f"{mode.__name__}: {name}",
                f"{time.median * 1e6:.2f} us",
                f"{time.spread:.0%}",
            ]
            goal = GOAL if name == "C++ op" else None
            cells += [f"{ratio:.2f}x", f"<= {goal}x" if goal else ""]
            rows.append([*cells, timing.verdict(ratio, goal, at_most=True)])
            met = met and (goal is None or ratio <= goal)
            results[f"{mode.__name__}, {name}"] = {"us": time.median * 1e6, "tfr_over_it": ratio}
    head = ["one call", "CPU", "spread", "tfr over it", "goal", ""]
    timing.table("calls on a [1, 8] float32 tensor", head, rows)
    if args.json:
        timing.write_json(args.json, results)
    return 1 if args.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
