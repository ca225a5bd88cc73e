"""The sections of run.py: one per process, `python sections.py NAME OUT SECONDS [OPTION...]`.

A section adds rows of figures and problems to a Result; an exception is a problem too. What runs on
a simulated device runs there in small. Figures of time and bandwidth are only taken on a GPU.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
for folder in (TESTS.parent / "bench", TESTS, TESTS / "numeric", TESTS / "cuda", HERE):
    sys.path.insert(0, str(folder))
os.environ.setdefault("TFR_JIT", "sync")
SIMULATED = "--simulated" in sys.argv
if SIMULATED:
    import simulated  # the driver comes before torch

import cases  # noqa: E402
import families  # noqa: E402
import harness  # noqa: E402
import kernel_checks  # noqa: E402
import timing  # noqa: E402
import torch  # noqa: E402
from tfrewrite import kernels, ops, program, rules  # noqa: E402

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
DEVICE = "cpu" if SIMULATED else "cuda"
SMALL = "--small" in sys.argv  # the same few kernels in every section: NVRTC's time is most of it
SEED = 1
COLD = 512 << 20  # bytes; more than any L2 holds
BAND = 4096  # bytes beside what a kernel may touch


class TimeIsUp(Exception):
    """The section's seconds are over; what it has stands."""


@dataclass
class Result:
    """What a section has found so far."""

    end: float
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reason: str = ""

    def row(self, **figures: Any) -> None:
        self.rows.append(figures)

    def check(self, good: bool, what: str) -> None:
        if not good:
            self.problems.append(what)

    def in_time(self) -> None:
        if time.monotonic() > self.end:
            raise TimeIsUp

    def as_json(self) -> dict[str, Any]:
        status = "failed" if self.problems else "passed" if not self.reason else "short"
        return {
            "status": status,
            "reason": self.reason,
            "problems": self.problems,
            "rows": self.rows,
        }


# ------------------------------------------------------------------ the device
def kernel(op: str, variant: str) -> Callable[..., Any]:
    return simulated.kernel(op, variant) if SIMULATED else kernels.get(op, variant)


def synchronize() -> None:
    if not SIMULATED:
        torch.cuda.synchronize()


def clock() -> int:
    """Nanoseconds when everything launched before is done."""
    synchronize()
    return time.perf_counter_ns()


def everywhere():
    """Where rewritten code calls the device's kernels."""
    return simulated.everywhere() if SIMULATED else nullcontext()


def as_tuple(result: Any) -> tuple[torch.Tensor, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def reference(case: cases.Case) -> Callable[..., Any]:
    return kernels.reference(rules.load()[case.op], case.variant)


def dtypes() -> list[torch.dtype]:
    bf16 = SIMULATED or torch.cuda.is_bf16_supported(including_emulation=False)
    return [F32, BF16, F16] if bf16 else [F32, F16]


def expected_path(op: str) -> tuple[str, ...]:
    return ("torch", "packed") if op in cases.PRODUCTS else ("cuda",)


# ------------------------------------------------------------------ sections
def environment(out: Result) -> None:
    """What all figures belong to."""
    target = ctypes.create_string_buffer(32)
    kernels.install(rules.load())
    why = kernels.library().tfr_torch_device_fault(0, target)
    out.check(why is None, f"no kernel can run: {why and why.decode(errors='replace')}")
    x = torch.ones(2, 64, device=DEVICE)
    kernel("rms_norm", "no_weight")(x, 1e-6)
    out.check(kernels.last_path() == "cuda", f"rms_norm took the path {kernels.last_path()}")
    out.row(program=program.find(), build=program.identity()[:12])
    out.row(target=target.value.decode(), device=device_name(), driver=driver_version())
    out.row(torch=torch.__version__, cuda=str(torch.version.cuda), nvrtc=nvrtc())
    out.row(python=platform.python_version(), system=platform.platform())


def device_name() -> str:
    if SIMULATED:
        return "simulated"
    p = torch.cuda.get_device_properties(0)
    return f"{p.name}, {p.major}.{p.minor}, {p.multi_processor_count} SMs"


def driver_version() -> int:
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def nvrtc() -> str:
    """The library that the process has loaded, or the version that compiled what it took."""
    found = re.findall(r"/\S*libnvrtc\.so\S*", Path("/proc/self/maps").read_text())
    return found[0] if found else "not loaded: the kernel was in the cache"


def numerics(out: Result) -> None:
    """Every op and reference on random and odd sizes beside torch on the same device, again and again
    with other sizes while there is time.
    """
    seen = kernel_checks.Beside()
    if SMALL:
        made = [*cases.every([F32], 1, SEED, 64), *cases.of_model(5, BF16, 64, 4, 16)]
    else:
        made = cases.every(dtypes(), 3, SEED, 20000)
    for case in made:
        if time.monotonic() > out.end:
            break
        case = case.on(DEVICE)
        run = kernel_checks.paired(seen, case.op, case.variant, kernel(case.op, case.variant))
        try:
            run(*case.arguments)
        except (AssertionError, RuntimeError) as error:
            out.problems.append(f"{case.name}: {error}")
    for op, variant, path in seen.calls:
        out.check(path in expected_path(op), f"{op}.{variant} took the path {path}")
    for op in sorted({op for op, _, _ in seen.calls}):
        share = seen.off[op] / seen.elements[op] if seen.elements[op] else 0.0
        calls = sum(n for key, n in seen.calls.items() if key[0] == op)
        out.row(op=op, calls=calls, elements16=seen.elements[op], off_by_an_ulp=share)
    seen.check()
    registered = {tuple(line.split("\t")) for line in registered_ops()}
    called = {(op, variant) for op, variant, _ in seen.calls}
    if left := {(o, v) for o, v in registered - called if o not in cases.PRODUCTS}:
        if time.monotonic() > out.end:
            raise TimeIsUp
        out.problems.append("never called: " + ", ".join(sorted(map(".".join, left))))


def registered_ops() -> list[str]:
    return kernels.library().tfr_torch_registered().decode().splitlines()


# ------------------------------------------------------------------ beside the simulator
def computed(path: Path, out: Result | None = None) -> None:
    """Results of a fixed list of calls, on this process's device, as a file."""
    results = []
    for case in cases.every([F32] if SMALL else [F32, BF16], 1, SEED, 64):
        if out is not None:
            out.in_time()
        if case.op not in cases.PRODUCTS:
            moved = case.on(DEVICE)
            found = as_tuple(kernel(case.op, case.variant)(*moved.arguments))
            assert kernels.last_path() == "cuda", f"{case.name}: path {kernels.last_path()}"
            results.append((case.name, [t.cpu() for t in found]))
    torch.save(results, path)


def beside_simulator(out: Result) -> None:
    """The same source on the device and on tests/ptxsim: what is left are the approximations of ex2,
    rcp and rsqrt, which rope and the sums of add_rms_norm and add_layer_norm have none of.
    """
    library = os.environ.get("TFR_PTXSIM") or str(
        Path(program.find()).resolve().parent / "tests/ptxsim/lib/libcuda.so.1"
    )
    if not Path(library).exists():
        out.reason = f"{library} is not built"
        return
    if SIMULATED:
        simulated.configure(warp_order=12345)
    here, there = (Path(sys.argv[2]).with_suffix(s) for s in (".here", ".there"))
    kernels.install(rules.load())
    command = [sys.executable, __file__, "computed", str(there), "0", "--simulated"]
    other = subprocess.Popen(
        command + ["--small"] * SMALL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TFR_PTXSIM": library},
    )
    try:
        computed(here, out)
        said, _ = other.communicate(timeout=max(1.0, out.end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeIsUp from None
    finally:
        other.kill()
    if other.returncode:
        raise RuntimeError(f"the simulator's process failed:\n{said[-2000:]}")
    table: dict[tuple[str, str], list[float]] = {}
    for (name, results), (same, expected) in zip(torch.load(here), torch.load(there), strict=True):
        assert name == same
        op = name.partition(".")[0]
        for i, (a, b) in enumerate(zip(results, expected, strict=True)):
            exact = SIMULATED or op == "rope" or (op.startswith("add_") and i == 1)
            off, worst = apart_by(a, b)
            out.check(not (off and exact), f"{name}: {off} elements have other bits")
            out.check(worst <= 1.0, f"{name}: {worst:.3g} times the bound")
            entry = table.setdefault((op, str(a.dtype)), [0, 0, 0.0])
            entry[0] += a.numel()
            entry[1] += off
            entry[2] = max(entry[2], worst)
    for (op, dtype), (count, off, worst) in sorted(table.items()):
        out.row(op=op, dtype=dtype[6:], elements=count, other_bits=off, of_the_bound=worst)


def apart_by(a: torch.Tensor, b: torch.Tensor) -> tuple[int, float]:
    """How many elements have other bits, and the largest difference over the bound: a few ulps of
    float32, and one of a narrower dtype, of the element, or of its row where a sum cancels.
    """
    kind = torch.int32 if a.dtype == F32 else torch.int16
    nan = a.isnan() & b.isnan()
    off = (a.contiguous().view(kind) != b.contiguous().view(kind)) & ~nan
    if not off.any():
        return 0, 0.0
    size = torch.maximum(b.double().abs(), 0.25 * b.double().abs().amax(-1, keepdim=True))
    ulp = 2.0**-20 if a.dtype == F32 else 1.01 * torch.finfo(a.dtype).eps
    error = ((a.double() - b.double()).abs() / (ulp * size + 1e-38))[off]
    return int(off.sum()), float(error.nan_to_num(float("inf")).max())


# ------------------------------------------------------------------ memory
def memory(out: Result) -> None:
    """Bands beside inputs and results stay as they are, and inputs too."""
    guarded = 0
    wide = () if SMALL else cases.of_model(33, dtypes()[1], 2560, 8, 128)
    for case in (*cases.every([F32], 1, SEED, 64), *wide):
        out.in_time()
        if case.op in cases.PRODUCTS:
            continue
        banded, wholes = with_bands(case)
        before = [whole.clone() for whole in wholes]
        run = kernel(case.op, case.variant)
        warm = as_tuple(run(*banded.arguments))
        bands = bands_like(warm)
        del warm
        results = as_tuple(run(*banded.arguments))
        synchronize()
        guarded += all(is_between(r, b) for r, b in zip(results, bands, strict=True))
        touched = [t for pair in bands for t in pair if bool((t != 0x5A).any())]
        out.check(not touched, f"{case.name}: wrote beside its result")
        same = all(torch.equal(a, b) for a, b in zip(before, wholes, strict=True))
        out.check(same, f"{case.name}: wrote to an input, or beside it")
    out.row(calls_with_bands_beside_their_results=guarded)
    if SIMULATED:
        strictly(out)
        return
    out.check(guarded > 0, "the allocator put no result between two bands")
    sanitizer(out)


def with_bands(case: cases.Case) -> tuple[cases.Case, list[torch.Tensor]]:
    """Its tensors inside larger ones of a pattern, which are given as bytes."""
    wholes, arguments = [], []
    for a in case.on(DEVICE).arguments:
        if isinstance(a, torch.Tensor):
            size = a.untyped_storage().nbytes()
            whole = torch.full((size + 2 * BAND,), 0x5A, dtype=torch.uint8, device=a.device)
            whole[BAND : BAND + size] = torch.empty(0, dtype=torch.uint8, device=a.device).set_(
                a.untyped_storage()
            )
            start = BAND // a.itemsize + a.storage_offset()
            a = torch.empty(0, dtype=a.dtype, device=a.device).set_(
                whole.untyped_storage(), start, a.shape, a.stride()
            )
            wholes.append(whole)
        arguments.append(a)
    return cases.Case(case.op, case.variant, case.dtype, tuple(arguments)), wholes


def bands_like(results: tuple[torch.Tensor, ...]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each result two blocks of the allocator with a hole of its size between them."""
    bands = []
    for r in results:
        blocks = [
            torch.full((max(1, r.nbytes),), 0x5A, dtype=torch.uint8, device=r.device)
            for _ in range(3)
        ]
        bands.append((blocks[0], blocks[2]))
        blocks.clear()
    return bands


def is_between(result: torch.Tensor, bands: tuple[torch.Tensor, torch.Tensor]) -> bool:
    """Whether the allocator put it there: blocks are multiples of 512 bytes."""
    block = -(-max(1, result.nbytes) // 512) * 512
    before, after = (t.data_ptr() for t in bands)
    return before + block == result.data_ptr() and result.data_ptr() + block == after


def strictly(out: Result) -> None:
    """On the simulator every access is held against what the call may touch."""
    for case in cases.every([F32], 1, SEED, 64):
        if case.op not in cases.PRODUCTS:
            with simulated.strict():
                kernel(case.op, case.variant)(*case.arguments)
            found = simulated.report()["findings"]
            out.check(not found, f"{case.name}: {found[:1]}")


def sanitizer(out: Result) -> None:
    """CUDA's own memory checker, where it is installed."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(tool).exists():
        out.row(compute_sanitizer="not installed")
        return
    left = max(1.0, out.end - time.monotonic())
    path = Path(sys.argv[2]).with_suffix(".sanitized")
    command = [tool, "--tool", "memcheck", "--error-exitcode", "9", sys.executable, __file__]
    try:
        done = subprocess.run(
            [*command, "computed", str(path), "0"], capture_output=True, text=True, timeout=left
        )
    except subprocess.TimeoutExpired:
        out.row(compute_sanitizer=f"not finished after {left:.0f} s")
        return
    out.check(done.returncode == 0, f"compute-sanitizer: {done.stdout[-1500:]}")
    out.row(compute_sanitizer="no error" if done.returncode == 0 else "errors")


# ------------------------------------------------------------------ graphs and compilers
def capture(out: Result) -> None:
    """torch.cuda.graph: a cold kernel is refused, warm ones are replayed with other inputs."""
    x = torch.randn(3, 1056, device=DEVICE)
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            kernel("rms_norm", "no_weight")(x, 1e-6)
        out.problems.append("a cold kernel was captured")
    except RuntimeError as error:
        out.check("tfrewrite warmup" in str(error), f"a cold kernel: {error}")
    for dtype in dtypes():
        made = [case.on(DEVICE) for case in cases.of_model(33, dtype, 2560, 8, 128)]
        for case in made:
            kernel(case.op, case.variant)(*case.arguments)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = [as_tuple(kernel(c.op, c.variant)(*c.arguments)) for c in made]
        for seed in (1, 2):
            torch.manual_seed(seed)
            for t in (t for case in made for t in case.tensors):
                t.copy_(torch.randn(t.shape, device=DEVICE))
            graph.replay()
            synchronize()
            for case, result in zip(made, results, strict=True):
                for a, b in zip(result, as_tuple(reference(case)(*case.arguments)), strict=True):
                    within(out, f"{case.name}, replayed", b, a)
        out.row(dtype=str(dtype)[6:], ops=len(made), replays=2)
    whole_model_in_a_graph(out)


def within(out: Result, name: str, want: torch.Tensor, got: torch.Tensor) -> None:
    """Near enough for an op's result: 1e-5 of the largest in float32, 2 ulp of it in 16 bits."""
    bound = 1e-5 if want.dtype == F32 else 2 * torch.finfo(want.dtype).eps
    far = float((want.double() - got.double()).abs().max() / want.double().abs().max())
    out.check(far <= bound, f"{name}: off by {far:.3g} of the largest")


def whole_model_in_a_graph(out: Result) -> None:
    original, rewritten = tiny_models(F32)
    ids = torch.arange(3, 21, device=DEVICE).view(2, 9)
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        rewritten(ids, use_cache=False)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        logits = rewritten(ids, use_cache=False).logits
    ids.copy_(torch.arange(40, 58, device=DEVICE).view(2, 9))
    graph.replay()
    with torch.no_grad():
        within(out, "a captured model", original(ids, use_cache=False).logits, logits)
    out.row(model="captured and replayed")


def compiled(out: Result) -> None:
    """torch.compile of a rewritten model, whole, beside the original run eagerly."""
    original, rewritten = tiny_models(F32)
    ids = torch.arange(3, 21, device=DEVICE).view(2, 9)
    for mode in ("default", "reduce-overhead"):
        out.in_time()
        torch._dynamo.reset()
        fast = torch.compile(rewritten, fullgraph=True, mode=mode)
        with torch.no_grad():
            want = original(ids, use_cache=False).logits
            for _ in range(3):
                got = fast(ids, use_cache=False).logits.clone()
        far = float((want - got).abs().max() / want.abs().max())
        out.check(far <= 1e-4, f"{mode}: logits off by {far:.3g} of the largest")
        out.row(mode=mode, off=far)


def tiny_models(dtype: torch.dtype) -> list[Any]:
    family = families.FAMILIES["qwen3"]
    texts = (harness.original_text("qwen3"), harness.rewrite_family("qwen3", "cuda").text)
    modules = [harness.load_module("qwen3", t, f"gpu{i}") for i, t in enumerate(texts)]
    made = [harness.build(m, family, "plain", "sdpa", dtype).to(DEVICE) for m in modules]
    harness.copy_weights(*made)
    return made


# ------------------------------------------------------------------ times
def bandwidth(out: Result) -> None:
    """Bytes that must move over the time taken, beside what a copy of as many bytes reaches. Inputs
    are used in turn, so that they come from memory.
    """
    for dtype in [d for d in dtypes() if d != F16]:
        for case in cases.of_model(4096, dtype, 2560, 32, 128):
            out.in_time()
            sets, moved = cold_sets(case.on(DEVICE))
            bytes_ = torch.zeros(len(sets), moved // 2, dtype=torch.uint8, device=DEVICE)
            seconds = {
                "op": in_turn(kernel(case.op, case.variant), sets),
                "copy": in_turn(torch.clone, [(one,) for one in bytes_]),
            }
            rate = {name: moved / took / 1e9 for name, took in seconds.items()}
            out.row(
                op=case.op,
                dtype=str(dtype)[6:],
                MB=moved / 1e6,
                us=seconds["op"] * 1e6,
                GB_per_s=rate["op"],
                copy_GB_per_s=rate["copy"],
                share_of_copy=rate["op"] / rate["copy"],
            )


def cold_sets(case: cases.Case) -> tuple[list[tuple[Any, ...]], int]:
    """Copies of the arguments that together fill COLD bytes, and the bytes that one call moves."""
    results = as_tuple(kernel(case.op, case.variant)(*case.arguments))
    moved = sum(t.nbytes for t in (*case.tensors, *results))
    count = max(2, -(-COLD // moved))
    return [copy.deepcopy(case.arguments) for _ in range(count)], moved


def in_turn(call: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> float:
    """Seconds of one call, the best of five rows of calls, by the device's own clock. As many results
    are kept as there are arguments, so that they go to memory too.
    """
    best, count = float("inf"), 3 * len(arguments)
    results = [call(*given) for given in arguments]
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(count):
            results[i % len(results)] = call(*arguments[i % len(arguments)])
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3 / count)
    return best


def comparison(out: Result) -> None:
    """Wall time of rows of calls, interleaved: torch eager, torch.compile, the kernel."""
    for tokens in (1, 4096):
        for case in cases.of_model(tokens, BF16 if BF16 in dtypes() else F16, 2560, 32, 128):
            out.in_time()
            case = case.on(DEVICE)
            eager, run = reference(case), kernel(case.op, case.variant)
            torch._dynamo.reset()
            fast = torch.compile(eager, dynamic=False)
            calls = {"eager": eager, "compiled": fast, "tfr": run}
            rows = {name: repeated(call, case) for name, call in calls.items()}
            times = timing.in_turn(rows, 9, 2, clock=clock)
            over = {n: timing.Times(times[n].ratios(times["tfr"])) for n in ("eager", "compiled")}
            out.row(
                op=case.op,
                tokens=tokens,
                tfr_us=times["tfr"].median * 1e6 / CALLS,
                over_eager=over["eager"].median,
                spread_eager=over["eager"].spread,
                over_compiled=over["compiled"].median,
                spread_compiled=over["compiled"].spread,
            )


CALLS = 50  # in a row


def repeated(function: Callable[..., Any], case: cases.Case) -> Callable[[], None]:
    def call() -> None:
        for _ in range(CALLS):
            function(*case.arguments)

    return call


# ------------------------------------------------------------------ a model
LAYERS_OF_A_MODEL = {
    "vocab_size": 32768,
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 12,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
TOKENS = 32


def model(out: Result) -> None:
    """The whole model: the same logits, and on a GPU tokens per second of greedy decoding."""
    for dtype in dtypes():
        original, rewritten = tiny_models(dtype)
        ids = torch.arange(3, 21, device=DEVICE).view(2, 9)
        with torch.no_grad(), everywhere(), ops.record() as counts:
            got = rewritten(ids, use_cache=False).logits
        with torch.no_grad():
            want = original(ids, use_cache=False).logits
        far = float((want.double() - got.double()).abs().max() / want.double().abs().max())
        bound = 1e-5 if dtype == F32 else 16 * torch.finfo(dtype).eps
        out.check(far <= bound, f"{dtype}: logits off by {far:.3g} of the largest")
        by_kernel = {} if SIMULATED and dtype == F16 else counts
        for op, variant, path in by_kernel:
            out.check(path in expected_path(op), f"{op}.{variant} took the path {path}")
        out.row(model="tiny", dtype=str(dtype)[6:], off=far, calls=sum(counts.values()))
    if not SIMULATED:
        tokens_per_second(out)


def tokens_per_second(out: Result) -> None:
    import tfrewrite
    from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

    dtype = BF16 if BF16 in dtypes() else F16
    made = {}
    for name, tiny in zip(("original", "rewritten"), tiny_models(dtype), strict=True):
        torch.manual_seed(0)
        with torch.device(DEVICE):
            made[name] = type(tiny)(Qwen3Config(**LAYERS_OF_A_MODEL)).to(dtype).eval()
        made[name].generation_config.eos_token_id = None
    made["rewritten"].load_state_dict(made["original"].state_dict())
    packing = tfrewrite.prepare(made["rewritten"], pack=True)
    out.check(bool(packing.packed), f"nothing was packed: {packing}")
    prompt = torch.arange(3, 131, device=DEVICE).view(1, 128)

    def decode(name: str) -> Callable[[], Any]:
        return lambda: made[name].generate(
            prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False
        )

    out.in_time()
    times = timing.in_turn({n: decode(n) for n in made}, 5, 1, clock=clock)
    over = timing.Times(times["original"].ratios(times["rewritten"]))
    for name in made:
        out.row(model=name, tokens_per_s=TOKENS / times[name].median, spread=times[name].spread)
    out.row(times_as_fast=over.median, spread=over.spread)


# ------------------------------------------------------------------ running one
SECTIONS: dict[str, Callable[[Result], None]] = {
    "environment": environment,
    "numerics": numerics,
    "simulator": beside_simulator,
    "memory": memory,
    "capture": capture,
    "compiled": compiled,
    "bandwidth": bandwidth,
    "comparison": comparison,
    "model": model,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*SECTIONS, "computed"])
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    kernels.install(rules.load())
    if args.name == "computed":
        computed(args.out)
        return 0
    out = Result(time.monotonic() + args.seconds)
    try:
        SECTIONS[args.name](out)
    except TimeIsUp:
        out.reason = f"only what {args.seconds:.0f} s were enough for"
    except Exception:
        out.problems += traceback.format_exc().splitlines()[-12:]
    args.out.write_text(json.dumps(out.as_json()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
