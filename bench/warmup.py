"""What compiling a model's CUDA kernels ahead of time costs: `tfrewrite warmup` for Qwen3-4B.

Needs NVRTC, no GPU. In turn, round after round: the program from an empty cache, and bare NVRTC calls for
the same sources and targets in one process, which is the least it could take (CPU time). Then what
two threads save (wall time), what a second run takes for each kernel, and, where the package triton
can be imported, what Triton takes for comparable kernels. Run it through `cmake --build build/bench
--target bench-warmup`, or with TFR_BIN set: python bench/warmup.py [--triton-python PATH]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COLD_GOAL = 1.1  # over the bare calls, CPU time
HIT_GOAL_MS = 0.3  # a kernel
TARGETS = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"]
CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 2560,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 9728,
    "vocab_size": 151936,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 36,
    "torch_dtype": "bfloat16",
}


# ------------------------------------------------------------------ bare NVRTC, in a process
def bare(sources: str, library: str) -> None:
    """Prints the CPU seconds of the calls for [[target, source], ...] of the file `sources`."""
    for builtins in Path(library).parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(library)
    jobs = [
        (target.encode(), source.encode())
        for target, source in json.loads(Path(sources).read_text())
    ]
    start = time.process_time()
    for target, source in jobs:
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = [b"--gpu-architecture=" + target, b"--std=c++17", b"--fmad=false"]
        array = (ctypes.c_char_p * len(options))(*options)
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None)
        if nvrtc.nvrtcCompileProgram(program, len(options), array):
            sys.exit(f"NVRTC refused a source for {target.decode()}")
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        nvrtc.nvrtcGetCUBIN(program, ctypes.create_string_buffer(size.value))
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    print(time.process_time() - start)


# ------------------------------------------------------------------ Triton, in a process
def triton_kernels() -> None:
    """Prints the CPU seconds, and the number, of rms_norm and silu_mul compiled for some targets."""
    try:
        import triton
        import triton.language as tl
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError:
        sys.exit(1)  # measure_triton says so

    @triton.jit
    def rms_norm(x, w, y, n_cols, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        v = tl.load(x + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        h = v * tl.rsqrt(tl.sum(v * v) / n_cols + eps)
        g = tl.load(w + cols, mask=mask)
        tl.store(y + row * n_cols + cols, h.to(tl.bfloat16) * g, mask=mask)

    @triton.jit
    def silu_mul(g, u, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        a = tl.load(g + at, mask=mask).to(tl.float32)
        b = tl.load(u + at, mask=mask)
        tl.store(y + at, (a / (1 + tl.exp(-a))).to(tl.bfloat16) * b, mask=mask)

    bf16 = "*bf16"
    norm = {"x": bf16, "w": bf16, "y": bf16, "n_cols": "i32", "eps": "fp32", "BLOCK": "constexpr"}
    mul = {"g": bf16, "u": bf16, "y": bf16, "n": "i32", "BLOCK": "constexpr"}
    count = 0
    for capability in (80, 86, 89, 90, 100, 120):
        target = GPUTarget("cuda", capability, 32)
        for block in (128, 4096):
            triton.compile(ASTSource(rms_norm, norm, {(5,): block}), target=target)
        triton.compile(ASTSource(silu_mul, mul, {(4,): 1024}), target=target)
        count += 3 if capability > 80 else 0
        if capability == 80:  # what Triton does once is not counted
            start = cpu()
    print(cpu() - start, count)


def cpu() -> float:
    """CPU seconds of this process and of the ended ones that it started: Triton runs ptxas."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


# ------------------------------------------------------------------ measuring
def run(command: list[Any], **environment: Any) -> tuple[str, float, float]:
    """Standard output, CPU and wall seconds."""
    before, start = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]), time.perf_counter()
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **{k: str(v) for k, v in environment.items()}},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - start
    return done.stdout, sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before, wall


class Place:
    """A folder with the configuration; caches in it."""

    def __init__(self, folder: Path, model: Path):
        self.folder, self.model, self._caches = folder, model, 0
        self.program = os.environ["TFR_BIN"]
        (folder / "config.json").write_text(json.dumps(CONFIG))

    def new_cache(self) -> Path:
        self._caches += 1
        return self.folder / f"cache{self._caches}"

    def warm(self, cache: Path, *options: Any, targets: list[str] = TARGETS) -> tuple[float, float]:
        """CPU and wall seconds."""
        config = ("--config", self.folder / "config.json", "--arch", ",".join(targets), "-q")
        command = [self.program, "warmup", self.model, *config, *options]
        return run(command, TFR_CACHE_DIR=cache, TFR_CACHE_RO="")[1:]

    def sources(self, cache: Path) -> list[tuple[str, str]]:
        """Target and source of each kernel, read off the keys of the entries."""
        found = []
        for path in sorted((cache / "kernels").glob("*.tfrk")):
            data = path.read_bytes()
            fields, at = {}, data.index(b"tfrewrite key 1\n") + len("tfrewrite key 1\n")
            while data[at : at + 8] != b"compiler":
                name, size = data[at : data.index(b"\n", at)].split()
                at = data.index(b"\n", at) + 1
                fields[name] = data[at : at + int(size)].decode()
                at += int(size) + 1
            found.append((fields[b"target"], fields[b"source"]))
        return found


def find_library(place: Place, cache: Path) -> str:
    """The one that the program uses."""
    text, _, _ = run([place.program, "cache", "why", "sm_90a"], TFR_CACHE_DIR=cache)
    return next(x.split("NVRTC: ", 1)[1] for x in text.splitlines() if "NVRTC: " in x)


def in_turn(first: Callable[[], float], second: Callable[[], float], rounds: int):
    """Seconds of both, each other round in the opposite order."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            times[which].append((first, second)[which]())
    return times


def ratio(a: list[float], b: list[float]) -> float:
    return statistics.median(x / y for x, y in zip(a, b))


def report(what: str, value: str, verdict: str = "") -> None:
    print(f"  {what:58} {value:>12}  {verdict}".rstrip(), flush=True)


def measure_triton(python: str) -> None:
    cache = tempfile.TemporaryDirectory()
    command = [python, __file__, "--triton-kernels"]
    try:
        text, _, _ = run(command, TRITON_CACHE_DIR=cache.name, TRITON_DEFAULT_FP_FUSION=0)
    except subprocess.CalledProcessError:
        print(f"  triton cannot be imported by {python}: not compared")
        return
    seconds, count = text.split()
    report("Triton, rms_norm and silu_mul, CPU a kernel", f"{float(seconds) / int(count):.3f} s")


def use_own_library() -> None:
    """NVRTC of this interpreter's packages, where it need not be the active environment."""
    for path in sys.path:
        for library in Path(path).glob("nvidia/cu13/lib/libnvrtc.so.13"):
            os.environ.setdefault("TFR_NVRTC", str(library))


def model_file() -> Path:
    from transformers.models.qwen3 import modeling_qwen3

    return Path(modeling_qwen3.__file__)


def measure(place: Place, rounds: int) -> None:
    first = place.new_cache()
    place.warm(first)
    jobs = place.sources(first)
    (place.folder / "sources.json").write_text(json.dumps(jobs))
    library = find_library(place, first)
    bare_command = [sys.executable, __file__, "--bare", place.folder / "sources.json", library]
    print(f"{len(jobs)} kernels for {len(TARGETS)} targets, {library}")

    cold, calls = in_turn(
        lambda: place.warm(place.new_cache(), "-j", 1)[0],
        lambda: float(run(bare_command)[0]),
        rounds,
    )
    over = ratio(cold, calls)
    report("warmup from nothing, CPU", f"{statistics.median(cold):.2f} s")
    report("bare NVRTC calls, CPU", f"{statistics.median(calls):.2f} s")
    report("  over them", f"{over:.3f}", "met" if over <= COLD_GOAL else "MISSED")
    report("warmup, CPU a kernel", f"{statistics.median(cold) / len(jobs):.3f} s")

    two, one = in_turn(
        lambda: place.warm(place.new_cache(), "-j", 2)[1],
        lambda: place.warm(place.new_cache(), "-j", 1)[1],
        rounds,
    )
    report("wall time with -j2 over -j1", f"{ratio(two, one):.3f}")

    # Rewriting the file is no kernel's cost, so one target's run is taken off.
    few = sum(target == "sm_90a" for target, _ in jobs)
    every, some = in_turn(
        lambda: place.warm(first, "-j", 1)[0],
        lambda: place.warm(first, "-j", 1, targets=["sm_90a"])[0],
        rounds * 10,
    )
    hit = (statistics.median(every) - statistics.median(some)) / (len(jobs) - few) * 1e3
    report("second run, CPU, all", f"{statistics.median(every) * 1e3:.1f} ms")
    report("  a kernel", f"{hit:.3f} ms", "met" if hit <= HIT_GOAL_MS else "MISSED")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--triton-python", default=sys.executable, help="the one that has triton")
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--triton-kernels", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.bare:
        bare(*args.bare)
    elif args.triton_kernels:
        triton_kernels()
    else:
        use_own_library()
        with tempfile.TemporaryDirectory() as folder:
            measure(Place(Path(folder), model_file()), args.rounds)
        measure_triton(args.triton_python)


if __name__ == "__main__":
    main()
