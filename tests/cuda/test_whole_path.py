"""A rewritten model on the simulated device: the hook's code, dispatch, NVRTC, cache, PTX, launch.

Each case has a process of its own (apart.py), in which a tiny Qwen3 runs rewritten, its ops under
the dispatch key CUDA, beside the original on the CPU with the same weights. The driver alone is
not the real one (tests/ptxsim).
"""

import time
from pathlib import Path

import apart
import pytest

pytestmark = pytest.mark.kernels
FAMILY, VARIANT = "qwen3", "plain"
KERNEL_OPS = {"rms_norm", "add_rms_norm", "act_mul", "qk_norm_rope"}  # of this model


# ------------------------------------------------------------------ inside a case's process
def models(dtype_name="float32", attn="sdpa"):
    """The original and the one that the import hook rewrote, in evaluation mode."""
    import simulated  # noqa: F401, I001 - before tfrewrite
    import families
    import harness
    import tfrewrite
    import torch
    from tfrewrite import hook

    torch.set_num_threads(1)
    family = families.FAMILIES[FAMILY]
    original = harness.load_module(FAMILY, harness.original_text(FAMILY), "original")
    tfrewrite.enable(target="cuda")
    rewritten = harness.original_module(FAMILY)  # imported now: the hook's
    assert hook.results[rewritten.__name__].status == "rewritten", hook.results
    dtype = getattr(torch, dtype_name)
    pair = [harness.build(m, family, VARIANT, attn, dtype) for m in (original, rewritten)]
    harness.copy_weights(*pair)
    return pair


def paths(counts) -> dict[str, set[str]]:
    """op -> the paths that its calls took."""
    table: dict[str, set[str]] = {}
    for op, _, path in counts:
        table.setdefault(op, set()).add(path)
    return table


def all_by(path: str, linears: str = "torch") -> dict[str, set[str]]:
    return {"linears": {linears}, **{op: {path} for op in KERNEL_OPS}}


def forward(model, tokens=9, rows=2):
    """Logits of a prompt."""
    import torch

    ids = torch.arange(3, 3 + rows * tokens).view(rows, tokens) % 120
    with torch.no_grad():
        return model(input_ids=ids).logits


def counted(function, *arguments):
    """Its result, and which paths the ops took meanwhile."""
    from tfrewrite import ops

    with ops.record() as counts:
        result = function(*arguments)
    return result, paths(counts)


def nvrtc_is_loaded() -> bool:
    return "libnvrtc" in Path("/proc/self/maps").read_text()


def assert_close(want, got):
    import harness

    harness.compare_values("logits", want, got, harness.Figures())


# ------------------------------------------------------------------ numbers
def same_numbers(dtype_name, attn):
    import harness
    import kernel_checks
    import simulated

    original, rewritten = models(dtype_name, attn)
    exact = None if dtype_name == "float32" else kernel_checks.exact_model(original)
    batch = harness.inputs(original, padded=True)
    figures = []
    with simulated.everywhere(), kernel_checks.beside_references() as seen:
        for run in (harness.prefill, harness.decode):
            want, (got, taken) = run(original, batch), counted(run, rewritten, batch)
            assert taken == all_by("cuda"), taken
            figures.append(harness.compare(want, got, True, exact and run(exact, batch)))
        for cache in ("dynamic", "static"):
            want = harness.generate(original, batch, cache)
            forced = exact and want["sequences"]
            got, taken = counted(harness.generate, rewritten, batch, cache, 6, forced)
            assert taken == all_by("cuda"), taken
            if exact is None:
                figures.append(harness.compare_generation(want, got))
            else:
                sure = harness.generate(exact, batch, cache, forced=forced)
                figures.append(kernel_checks.compare_forced(want, got, sure))
    seen.check()
    assert {op for op, _, _ in seen.calls} == KERNEL_OPS | {"linears"}
    return [str(f) for f in figures], sum(seen.calls.values())


@pytest.mark.parametrize("attn", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_same_numbers(dtype, attn):
    """Prefill, decode and generate, whole and op by op; guarantee 5 of docs/ARCHITECTURE.md."""
    figures, calls = apart.run(same_numbers, dtype, attn)[0]
    print(f"{dtype} {attn}: {calls} kernel calls beside their references; {figures}")
    assert calls > 100


# ------------------------------------------------------------------ cache, async, off
def fresh(path):
    """One forward pass: the paths, whether NVRTC is in the process, and the cache's files."""
    import simulated

    original, rewritten = models()
    with simulated.everywhere():
        got, taken = counted(forward, rewritten)
    assert_close(forward(original), got)
    assert taken == all_by("cuda"), taken
    files = sorted((str(f), f.stat().st_mtime_ns) for f in Path(path).rglob("*") if f.is_file())
    return nvrtc_is_loaded(), files


def test_cold_and_warm(tmp_path):
    cold, files = apart.run(fresh, tmp_path / "kernels", TFR_CACHE_DIR=str(tmp_path))[0]
    assert cold, "the kernels came from elsewhere"
    warm, later = apart.run(fresh, tmp_path / "kernels", TFR_CACHE_DIR=str(tmp_path))[0]
    assert not warm, "NVRTC was loaded although every kernel lay in the cache"
    assert later == files and files


def asynchronous():
    import simulated
    from tfrewrite import kernels

    original, rewritten = models()
    want = forward(original)
    with simulated.everywhere():
        first, before = counted(forward, rewritten)
        kernels.wait()
        time.sleep(0.05)  # longer than a call waits before it asks again
        second, after = counted(forward, rewritten)
    assert_close(want, first)
    assert_close(want, second)
    return before, after


def test_async_switches_over(tmp_path):
    before, after = apart.run(asynchronous, TFR_JIT="async", TFR_CACHE_DIR=str(tmp_path))[0]
    assert before["linears"] == {"torch"}
    assert all("aten" in before[op] for op in KERNEL_OPS), before  # nothing waited for NVRTC
    assert after == all_by("cuda")


def off():
    import simulated
    import torch

    original, rewritten = models()
    with simulated.everywhere():
        got, taken = counted(forward, rewritten)
    assert torch.equal(forward(original), got)  # the same aten calls
    return taken, simulated.calls("cuInit"), nvrtc_is_loaded()


def test_off_runs_the_aten_calls():
    taken, opened, nvrtc = apart.run(off, TFR_JIT="off")[0]
    assert taken == all_by("aten")
    assert not opened and not nvrtc


# ------------------------------------------------------------------ linears
def packed():
    import simulated
    import tfrewrite
    import torch
    from tfrewrite import ops

    original, rewritten = models()
    ids = torch.arange(3, 10).view(1, 7)
    with simulated.everywhere(), torch.no_grad():
        packing = tfrewrite.prepare(rewritten, pack=True)
        assert packing.packed and not packing.refused, str(packing)
        found = []
        for unpack in (False, True):
            if unpack:
                tfrewrite.unpack(rewritten)
            want_cache = got_cache = None
            for name, tokens in (("prompt", ids), ("one token", ids[:, :1])):
                want = original(tokens, past_key_values=want_cache, use_cache=True)
                with ops.record() as counts:
                    got = rewritten(tokens, past_key_values=got_cache, use_cache=True)
                want_cache, got_cache = want.past_key_values, got.past_key_values
                assert_close(want.logits, got.logits)
                found.append((name, paths(counts)["linears"]))
    return found


def test_packed_linears_run_as_one():
    """Guarded by what they compute, too: a row of the packed product is no view that `.view` minds."""
    assert apart.run(packed)[0] == [
        ("prompt", {"torch"}),
        ("one token", {"packed"}),
        ("prompt", {"torch"}),
        ("one token", {"torch"}),
    ]


# ------------------------------------------------------------------ what must not go to a kernel
def under_autocast():
    import simulated
    import torch

    original, rewritten = models()
    with simulated.everywhere(), torch.autocast("cpu", torch.bfloat16):
        got, taken = counted(forward, rewritten)
        assert torch.equal(forward(original), got)
    return taken


def test_autocast_runs_the_references():
    taken = apart.run(under_autocast)[0]
    assert set().union(*taken.values()) <= {"reference", "helper"}, taken


def with_gradients():
    import harness
    import simulated
    import torch

    original, rewritten = models()
    batch = harness.inputs(original)
    want = harness.train(original, batch)
    with simulated.everywhere():
        got, taken = counted(harness.train, rewritten, batch)
    for name, gradient in want["grad"].items():
        assert torch.equal(gradient, got["grad"][name]), name
    return taken


def test_training_runs_the_references():
    taken = apart.run(with_gradients)[0]
    assert set().union(*taken.values()) <= {"reference", "helper"}, taken


# ------------------------------------------------------------------ threads, forks, ranks
def in_threads():
    """Four threads at once from a cold start: loading is shared, results are everybody's own."""
    import threading

    import simulated
    from tfrewrite import ops

    original, rewritten = models()
    want = [forward(original, 4 + i % 2) for i in range(4)]
    got, faults = [None] * 4, []
    start = threading.Barrier(4)

    def work(i):
        try:
            start.wait()
            for _ in range(2):
                got[i] = forward(rewritten, 4 + i % 2)
        except BaseException as error:
            faults.append(repr(error))

    with simulated.everywhere(), ops.record() as counts:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not faults, faults
    for a, b in zip(want, got, strict=True):
        assert_close(a, b)
    return (
        paths(counts),
        simulated.calls("cuLibraryLoadData"),
        simulated.calls("cuDevicePrimaryCtxRetain"),
    )


def test_threads():
    taken, loads, contexts = apart.run(in_threads)[0]
    assert taken == all_by("cuda")
    assert contexts == 1
    assert loads < 20, "each kernel is loaded once, whoever asks"


def in_fork():
    import simulated

    original, rewritten = models()
    want = forward(original)

    def child():
        got, taken = counted(forward, rewritten)
        assert_close(want, got)
        return taken

    with simulated.everywhere():
        before = counted(forward, rewritten)[1]
        forked = apart.fork(child)
        got, after = counted(forward, rewritten)
    assert_close(want, got)
    return before, forked, after


def test_fork():
    """CUDA does not survive a fork: the child falls back and says so once, the parent goes on."""
    before, (in_child, said), after = apart.run(in_fork)[0]
    assert before == after == all_by("cuda")
    assert in_child == all_by("aten")
    assert len(said) == 1 and "forked" in said[0] and "spawn" in said[0], said


def rank(number, folder):
    """What one of two ranks sees before and after they adopt the kernels together."""
    import simulated
    import torch
    from tfrewrite import kernels

    store = f"file://{folder}/ranks"
    torch.distributed.init_process_group("gloo", init_method=store, rank=number, world_size=2)
    original, rewritten = models()
    want, seen = forward(original), []
    with simulated.everywhere():
        for step in ("cold", "compiled", "adopted"):
            if step == "compiled":
                kernels.wait()
            if step == "adopted":
                kernels.adopt()
            time.sleep(0.05)
            got, taken = counted(forward, rewritten)
            assert_close(want, got)
            seen.append(taken)
    torch.distributed.destroy_process_group()
    return seen


def test_ranks_change_over_together(tmp_path):
    """WORLD_SIZE=2, async: ready kernels wait for adopt(), which both ranks call at one step."""
    from concurrent.futures import ThreadPoolExecutor

    environment = {"TFR_JIT": "async", "WORLD_SIZE": "2", "TFR_CACHE_DIR": str(tmp_path)}
    with ThreadPoolExecutor(2) as pool:
        ranks = list(pool.map(lambda n: apart.run(rank, n, tmp_path, **environment)[0], range(2)))
    assert ranks[0] == ranks[1] == [all_by("aten"), all_by("aten"), all_by("cuda")]
