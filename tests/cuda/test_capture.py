"""Ops while a CUDA graph is captured: nothing is compiled or loaded, warm kernels are recorded, and a
replay computes with what the inputs hold then.

CPU tensors have no stream, so the simulated driver is told which one the default stream stands for
(simulated.null_stream). Each case runs in a process of its own (apart.py).
"""

import ctypes
from contextlib import contextmanager

import apart
import pytest

pytestmark = pytest.mark.kernels
LOADING = ("cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction", "cuModuleLoadData")
EPS = 1e-5


# ------------------------------------------------------------------ inside a case's process
class Graph:
    """The driver's own capture of what is launched on the default stream."""

    def __init__(self):
        import simulated

        self._cu = cu = simulated.driver
        context, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._exec = ctypes.c_void_p()
        self._check(cu.cuInit(0))
        self._check(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self._check(cu.cuCtxSetCurrent(context))
        self._check(cu.cuStreamCreate(ctypes.byref(self._stream), 1))
        simulated.null_stream(self._stream)

    @contextmanager
    def capture(self):
        """Graph-wide mode, as torch.cuda.graph has it. The capture must have stayed valid."""
        graph = ctypes.c_void_p()
        self._check(self._cu.cuStreamBeginCapture_v2(self._stream, 0))
        try:
            yield
        finally:
            result = self._cu.cuStreamEndCapture(self._stream, ctypes.byref(graph))
        self._check(result)
        self._check(self._cu.cuGraphInstantiateWithFlags(ctypes.byref(self._exec), graph, 0))

    def replay(self):
        self._check(self._cu.cuGraphLaunch(self._exec, self._stream))
        self._check(self._cu.cuStreamSynchronize(self._stream))

    @staticmethod
    def _check(result):
        assert result == 0, f"CUresult {result}"


def loads() -> int:
    import simulated

    return sum(simulated.calls(name) for name in LOADING)


def norm(dtype="float32"):
    """rms_norm under the key CUDA, and arguments for it."""
    import simulated
    import torch
    from tfrewrite import kernels, rules

    kernels.install(rules.load())
    torch.manual_seed(0)
    x, weight = (torch.randn(size).to(getattr(torch, dtype)) for size in ((3, 64), (64,)))
    return simulated.kernel("rms_norm", "cast_then_weight"), x, weight


def refused(call) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("it ran")


def cold():
    import torch
    from tfrewrite import kernels

    graph = Graph()
    kernel, x, weight = norm()
    with graph.capture():
        text = refused(lambda: kernel(x, weight, EPS))
        assert loads() == 0
        with open("/proc/self/maps") as maps:
            assert "libnvrtc" not in maps.read()
    y = kernel(x, weight, EPS)  # the capture has spoilt nothing
    assert kernels.last_path() == "cuda"
    want = kernels.reference(*_rule())(x, weight, EPS)
    torch.testing.assert_close(y, want, rtol=1e-5, atol=1e-6)
    return text


def _rule():
    from tfrewrite import rules

    return rules.load()["rms_norm"], "cast_then_weight"


def test_cold_kernel_is_refused(tmp_path):
    text = apart.run(cold, TFR_CACHE_DIR=str(tmp_path))[0]
    assert text.startswith("tfrewrite: tfr::rms_norm."), text
    assert "`tfrewrite warmup`" in text and "TFR_CAPTURE=fallback" in text


def test_cold_kernel_is_refused_although_the_cache_has_it(tmp_path):
    apart.run(cold, TFR_CACHE_DIR=str(tmp_path))
    assert "`tfrewrite warmup`" in apart.run(cold, TFR_CACHE_DIR=str(tmp_path))[0]


def cold_through_ops():
    import simulated
    from tfrewrite import ops

    graph = Graph()
    _, x, weight = norm()
    with simulated.everywhere(), ops.record() as counts:
        with graph.capture():
            text = refused(lambda: ops.rms_norm(x, weight, EPS, order="cast_weight"))
        assert not counts, counts  # in particular no "reference"
        ops.rms_norm(x, weight, EPS, order="cast_weight")
    return text, [path for _, _, path in counts]


def test_python_does_not_take_the_error_for_a_shape():
    text, paths = apart.run(cold_through_ops)[0]
    assert "`tfrewrite warmup`" in text and paths == ["cuda"]


def fallback():
    import torch
    from tfrewrite import kernels

    graph = Graph()
    kernel, x, weight = norm()
    with graph.capture():
        y, path = kernel(x, weight, EPS), kernels.last_path()
        assert loads() == 0
    assert torch.equal(y, kernels.reference(*_rule())(x, weight, EPS))
    return path


@pytest.mark.parametrize("environment", [{"TFR_CAPTURE": "fallback"}, {"TFR_JIT": "off"}], ids=str)
def test_fallback_may_be_captured(environment):
    assert apart.run(fallback, **environment)[0] == "aten"


def without_nvrtc():
    graph = Graph()
    kernel, x, weight = norm()
    kernel(x, weight, EPS)
    with graph.capture():
        return refused(lambda: kernel(x, weight, EPS))


def test_kernel_that_cannot_be_had(tmp_path):
    """A graph would keep the slow way for good: said at the capture too."""
    environment = {"TFR_NVRTC": str(tmp_path / "none.so"), "TFR_CACHE_DIR": str(tmp_path)}
    assert "`tfrewrite warmup`" in apart.run(without_nvrtc, **environment)[0]


def unfinished():
    import simulated
    from tfrewrite import kernels

    graph = Graph()
    kernel, x, weight = norm()
    kernel(x, weight, EPS)
    path = kernels.last_path()
    kernels.wait()  # ready, but never loaded
    with graph.capture():
        text = refused(lambda: kernel(x, weight, EPS))
        assert loads() == 0
    kernel(x, weight, EPS)
    return path, text, kernels.last_path(), simulated.calls("cuLibraryLoadData")


def test_async_kernel_that_is_not_loaded_yet(tmp_path):
    before, text, after, loaded = apart.run(
        unfinished, TFR_JIT="async", TFR_CACHE_DIR=str(tmp_path)
    )[0]
    assert before == "aten" and "`tfrewrite warmup`" in text
    assert after == "cuda" and loaded == 1


# ------------------------------------------------------------------ replay
def calls(dtype):
    """(op, variant, arguments) of each op with kernels."""
    import torch

    def new(*size):
        return torch.randn(size).to(dtype)

    q, k = new(2, 5, 4, 24), new(2, 5, 2, 24)
    weight, cos, sin = new(24), new(1, 5, 24), new(1, 5, 24)
    return [
        ("rms_norm", "cast_then_weight", (new(3, 64), new(64), EPS)),
        ("add_rms_norm", "add_then_norm", (new(3, 64), new(3, 64), new(64), EPS, 0)),
        ("act_mul", "two_inputs", (0, new(3, 40), new(3, 40))),
        ("softcap", "in_its_dtype", (new(3, 40), 30.0)),
        ("rope", "half_both", (q.transpose(1, 2), k.transpose(1, 2), cos, sin, 1)),
        (
            "qk_norm_rope",
            "norm_transpose_rope",
            (q, k, weight, EPS, 0, weight.clone(), EPS, 0, cos, sin, 1),
        ),
    ]


def replayed(dtype_name):
    import simulated
    import torch
    from tfrewrite import kernels, rules

    graph, dtype = Graph(), getattr(torch, dtype_name)
    torch.manual_seed(0)
    kernels.install(rules.load())
    made = calls(dtype)
    for op, variant, arguments in made:
        simulated.kernel(op, variant)(*arguments)
        assert kernels.last_path() == "cuda", op
    before, launched = loads(), simulated.launches()
    results = []
    with graph.capture():
        for op, variant, arguments in made:
            results.append(simulated.kernel(op, variant)(*arguments))
            assert kernels.last_path() == "cuda", op
            for r in _tuple(results[-1]):
                r.fill_(7)  # nothing is computed yet
    assert loads() == before
    assert simulated.launches() == launched, "a captured launch must not run"
    for seed in (1, 2):
        torch.manual_seed(seed)
        for _, _, arguments in made:
            for t in arguments:
                if isinstance(t, torch.Tensor):
                    t.copy_(torch.randn(t.shape))
        graph.replay()
        for (op, variant, arguments), result in zip(made, results, strict=True):
            want = kernels.reference(rules.load()[op], variant)(*arguments)
            close = 1e-5 if dtype == torch.float32 else 2**-6
            for a, b in zip(_tuple(result), _tuple(want), strict=True):
                torch.testing.assert_close(a, b, rtol=close, atol=close)
    return simulated.launches() - launched


def _tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_replay_computes_with_changed_inputs(dtype):
    assert apart.run(replayed, dtype)[0] == 2 * 6
