"""Whatever the driver does wrong, an op's result is right, through its torch operations and with one
warning, or the call fails with a clear error. Never a crash, a hang or a wrong number.

The driver's functions are read from the table in runtime/driver.c, so a new one is tested here
without a change. Each case runs in a process of its own (apart.py).
"""

import itertools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import apart
import pytest

pytestmark = pytest.mark.kernels
DRIVER = Path(__file__).resolve().parents[2] / "runtime/driver.c"
CUDA_12 = ("cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction")
STICKY = {700: "CUDA_ERROR_ILLEGAL_ADDRESS", 719: "CUDA_ERROR_LAUNCH_FAILED"}
CODES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
    **STICKY,
}
FOR_EVER = 1 << 30
PLANS = [(0, 1), (0, FOR_EVER), (1, 1)]  # after so many calls, so often


def functions() -> dict[str, bool]:
    """The driver functions that the runtime looks up, and whether it needs each."""
    table = DRIVER.read_text().split("#define FUNCTIONS(X)")[1].split("static struct")[0]
    found = re.findall(r"X\((cu\w+),.*?,\s*(true|false)\)", table.replace("\\", " "), re.DOTALL)
    assert len(found) == table.count("X(cu"), "the table in driver.c is written in another way"
    return {name: needed == "true" for name, needed in found}


FUNCTIONS = functions()


# ------------------------------------------------------------------ inside a case's process
@dataclass
class Outcome:
    """What a few calls of rms_norm came to."""

    paths: list[str] = field(default_factory=list)  # "error" where a call raised
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)  # of driver functions
    nvrtc: bool = False
    targets: list[str] = field(default_factory=list)  # of the loaded PTX


def rms_norm(*arguments):
    """torch's op, under the dispatch key CUDA, whether or not there is a driver."""
    import torch
    from tfrewrite import kernels

    overload = kernels.get("rms_norm", "cast_then_weight")
    return overload._op_dk(torch._C.DispatchKey.CUDA, *arguments)


def prepare():
    """Imports what a case needs, lazily imported modules too, and opens nothing."""
    import torch
    from tfrewrite import kernels, rules

    torch.set_num_threads(1)
    kernels.install(rules.load())
    torch.testing.assert_close(torch.ones(2), torch.ones(2))


def call_some(dtypes=("float32", "float32", "bfloat16", "float32"), simulator=True) -> Outcome:
    """Calls with these dtypes; every result that there is must be right."""
    import torch
    from tfrewrite import kernels, rules

    if simulator:
        import simulated
    kernels.install(rules.load())
    outcome = Outcome()
    reference = kernels.reference(rules.load()["rms_norm"], "cast_then_weight")
    for i, name in enumerate(dtypes):
        dtype = getattr(torch, name)
        x, weight = (torch.randn(3, 64) + i).to(dtype), torch.randn(64).to(dtype)
        try:
            result = rms_norm(x, weight, 1e-5)
        except RuntimeError as error:
            outcome.paths.append("error")
            outcome.errors.append(str(error))
        else:
            outcome.paths.append(kernels.last_path())
            close = 1e-5 if dtype == torch.float32 else 2**-7
            torch.testing.assert_close(result, reference(x, weight, 1e-5), rtol=close, atol=0)
    if simulator:
        outcome.calls = {name: simulated.calls(name) for name in FUNCTIONS}
    outcome.nvrtc = "libnvrtc" in Path("/proc/self/maps").read_text()
    return outcome


def run(case, *arguments, **environment) -> Outcome:
    outcome, said = apart.run(case, *arguments, **{"TFR_JIT": "sync", **environment})
    outcome.warnings = said
    return outcome


def fork(case, *arguments) -> Outcome:
    outcome, said = apart.fork(case, *arguments)
    outcome.warnings = said
    return outcome


def with_fault(function, code, after, times) -> Outcome:
    import simulated

    simulated.fault(function, code, after, times)
    return call_some()


def fault_table(names) -> dict[tuple, Outcome | str]:
    """Every plan with every code for every function, each in a fork. A crash is kept as text."""
    prepare()
    import simulated  # noqa: F401 - loaded, not opened

    found = {"no fault": fork(call_some)}
    for case in itertools.product(names, CODES, PLANS):
        function, code, (after, times) = case
        try:
            found[case] = fork(with_fault, function, code, after, times)
        except apart.Failed as failed:
            found[case] = str(failed)
    return found


# ------------------------------------------------------------------ faults of every function
@pytest.fixture(scope="module")
def by_library():
    """With CUDA 12's libraries."""
    return apart.run(fault_table, list(FUNCTIONS), TFR_JIT="sync")[0]


@pytest.fixture(scope="module")
def by_module(tmp_path_factory):
    """With a driver that has none, so that each context loads modules."""
    library = without(CUDA_12, tmp_path_factory.mktemp("old"))
    names = [name for name in FUNCTIONS if "Module" in name]
    return apart.run(fault_table, names, TFR_PTXSIM=library, TFR_JIT="sync")[0]


def without(names, folder) -> str:
    """A copy of the simulated driver in which these functions are not found."""
    data = Path(simulated_library()).read_bytes()
    for name in names:
        hidden = b"\0" + b"x" + name.encode()[1:] + b"\0"
        assert b"\0" + name.encode() + b"\0" in data, name
        data = data.replace(b"\0" + name.encode() + b"\0", hidden)
    path = Path(folder) / "libcuda.so.1"
    path.write_bytes(data)
    return str(path)


def simulated_library() -> str:
    if named := os.environ.get("TFR_PTXSIM"):
        return named
    return str(Path(os.environ["TFR_BIN"]).resolve().parent / "tests/ptxsim/lib/libcuda.so.1")


def judge(code, outcome) -> str:
    """ "" or what is wrong with it."""
    if isinstance(outcome, str):
        return outcome
    known = {"cuda", "aten", "error"}
    if not set(outcome.paths) <= known:
        return f"took the paths {outcome.paths}"
    if len(outcome.warnings) != ("aten" in outcome.paths):
        return f"{outcome.paths} with {len(outcome.warnings)} warnings: {outcome.warnings}"
    for text in outcome.warnings:
        if "CUDA" not in text or "rms_norm" not in text:
            return f"a warning that does not say what it is about: {text}"
    for text in outcome.errors:
        if code not in STICKY:
            return f"an error for {CODES[code]}: {text}"
        if not text.startswith("tfrewrite: tfr::rms_norm.") or "[3, 64]" not in text:
            return f"an error without op and shapes: {text}"
        if str(code) not in text:
            return f"an error without its code: {text}"
    return ""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_faults(function, by_library, by_module):
    judged, reached = 0, 0
    for table in (by_library, by_module):
        plain = table["no fault"]
        assert set(plain.paths) == {"cuda"} and not plain.warnings, plain
        reached += plain.calls[function]
        for case, outcome in table.items():
            if case == "no fault" or case[0] != function:
                continue
            judged += 1
            assert not (wrong := judge(case[1], outcome)), f"{case}: {wrong}"
    assert judged >= len(CODES) * len(PLANS)
    # Words are asked for only after a fault: that those are reached, test_words shows.
    assert reached or function.startswith("cuGetError"), f"{function} is never called"


def test_both_ways_of_loading(by_library, by_module):
    assert by_library["no fault"].calls["cuLibraryLoadData"]
    assert not by_library["no fault"].calls["cuModuleLoadData"]
    assert by_module["no fault"].calls["cuModuleLoadData"]


def test_launches_recover(by_library):
    """One refused launch is one call by torch's operations; the next goes to the kernel again."""
    outcome = by_library["cuLaunchKernel", 2, (0, 1)]
    assert outcome.paths == ["aten", "cuda", "cuda", "cuda"]


def test_sticky_errors_are_errors(by_library):
    """After them nothing else would run on the device either, so nothing is tried in its place."""
    for code in STICKY:
        outcome = by_library["cuLaunchKernel", code, (1, 1)]
        assert outcome.paths == ["cuda", "error", "cuda", "cuda"]
        assert STICKY[code] in outcome.errors[0] and not outcome.warnings


def with_a_real_fault() -> Outcome:
    """Kernels may touch nothing, so the first one faults, and its context with it."""
    import simulated

    simulated.configure(strict=1)
    return call_some()


def real_fault() -> Outcome:
    prepare()
    import simulated  # noqa: F401

    return fork(with_a_real_fault)


def test_context_that_a_kernel_has_lost():
    """Every later call says so; what was not loaded yet runs as torch's operations, which on a real
    device fail with torch's own error.
    """
    outcome, _ = apart.run(real_fault)
    assert outcome.paths == ["error", "error", "aten", "error"], outcome
    assert not judge(700, outcome)


def test_memory_for_one_kernel(by_library):
    """A kernel that did not fit is given up; others are loaded."""
    outcome = by_library["cuLibraryLoadData", 2, (0, 1)]
    assert outcome.paths == ["aten", "aten", "cuda", "aten"]
    assert CODES[2] in outcome.warnings[0]


def wordless(code) -> Outcome:
    import simulated

    for name in ("cuGetErrorName", "cuGetErrorString"):
        simulated.fault(name, 1, 0, FOR_EVER)
    return with_fault("cuLaunchKernel", code, 0, 1)


def words() -> list[Outcome]:
    prepare()
    import simulated  # noqa: F401

    return [fork(wordless, 2), fork(with_fault, "cuLaunchKernel", 2, 0, 1)]


def test_words():
    """A driver without words for its error: the number is still told."""
    (wordless, usual), _ = apart.run(words)
    assert wordless.paths == usual.paths == ["aten", "cuda", "cuda", "cuda"]
    assert re.search(r"\(2, .*no words", wordless.warnings[0]), wordless.warnings
    assert "CUDA_ERROR_OUT_OF_MEMORY (2, " in usual.warnings[0], usual.warnings


# ------------------------------------------------------------------ other drivers and devices
def configured(settings, dtypes) -> Outcome:
    import simulated

    if settings:
        simulated.configure(**settings)
    outcome = call_some(dtypes)
    outcome.targets = programs()
    return outcome


def programs() -> list[str]:
    """The targets of the loaded PTX."""
    import simulated

    return [re.search(r"^\.target (\w+)", text, re.MULTILINE)[1] for text in simulated.programs()]


FLOATS = ("float32", "bfloat16")


@pytest.mark.parametrize(
    "settings, target, paths, words",
    [
        ({"driver": 11000}, "compute_90", "aten aten", "11.0"),
        ({"driver": 12000}, "compute_90", "aten aten", "does not load"),  # older than NVRTC
        ({"driver": 99000}, "compute_90", "cuda cuda", ""),
        ({"devices": 0}, "compute_90", "aten aten", "CUDA_ERROR_NO_DEVICE"),
        ({"capability": 6.1}, "", "aten aten", "6.1 is older"),
        ({"capability": 7.5}, "compute_75", "cuda aten", "no bfloat16"),
        ({"capability": 13.0}, "", "cuda cuda", ""),  # PTX of the newest row
        ({"capability": 9.0}, "", "aten aten", "CUDA_ERROR_NO_BINARY_FOR_GPU"),  # a cubin
        ({"capability": 8.0}, "compute_90", "aten aten", "does not load"),
        ({}, "sm_1", "aten aten", "TFR_CUDA_TARGET=sm_1"),
    ],
    ids=str,
)
def test_configurations(settings, target, paths, words):
    outcome = run(configured, settings, FLOATS, TFR_CUDA_TARGET=target)
    assert outcome.paths == paths.split(), outcome
    assert not outcome.errors
    assert len(outcome.warnings) == ("aten" in paths), outcome.warnings
    for text in outcome.warnings:
        assert words in text, text
    if settings.get("capability") == 13.0:
        assert len(set(outcome.targets)) == 1 and outcome.targets[0] != "sm_90", outcome


def without_driver() -> Outcome:
    return call_some(FLOATS, simulator=False)


def real_driver() -> bool:
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_no_driver():
    if apart.run(real_driver)[0]:
        pytest.skip("this machine has a CUDA driver")
    outcome = run(without_driver)
    assert outcome.paths == ["aten", "aten"] and not outcome.errors
    assert len(outcome.warnings) == 1 and "libcuda.so.1" in outcome.warnings[0], outcome.warnings


def lacking(libraries) -> dict[str, Outcome]:
    prepare()
    return {name: fork(lacking_one, path) for name, path in libraries.items()}


def lacking_one(path) -> Outcome:
    os.environ["TFR_PTXSIM"] = path
    return call_some(FLOATS)


def test_functions_that_a_driver_lacks(tmp_path):
    """A needed one: torch's operations and one warning that names it. Another: the older way."""
    libraries = {}
    for name in FUNCTIONS:
        folder = tmp_path / name
        folder.mkdir()
        libraries[name] = without([name], folder)
    for name, outcome in apart.run(lacking, libraries)[0].items():
        assert not outcome.errors
        if FUNCTIONS[name]:
            assert outcome.paths == ["aten", "aten"], name
            assert len(outcome.warnings) == 1 and name in outcome.warnings[0], outcome.warnings
        else:
            assert outcome.paths == ["cuda", "cuda"] and not outcome.warnings, (name, outcome)
            assert outcome.calls["cuModuleLoadData"] == 2


# ------------------------------------------------------------------ no NVRTC, a bad cache
def nvrtc_of_text(folder):
    (folder / "libnvrtc.so.13").write_text("no library\n")
    return folder / "libnvrtc.so.13"


@pytest.mark.parametrize("kind", ["missing", "text", "another library"])
def test_without_nvrtc(kind, tmp_path):
    path = {
        "missing": lambda: tmp_path / "nowhere.so",
        "text": lambda: nvrtc_of_text(tmp_path),
        "another library": lambda: simulated_library(),
    }[kind]()
    folder = str(tmp_path / "cache")
    outcome = run(call_some, FLOATS, TFR_NVRTC=str(path), TFR_CACHE_DIR=folder)
    assert outcome.paths == ["aten", "aten"] and not outcome.errors
    assert len(outcome.warnings) == 1, outcome.warnings
    assert "nvrtc" in outcome.warnings[0].lower(), outcome.warnings


def entries(folder) -> list[Path]:
    """The cache's files that hold PTX."""
    files = [f for f in Path(folder).rglob("*") if f.is_file()]
    return [f for f in files if b".target sm_" in f.read_bytes()]


@pytest.mark.parametrize("damage", ["cut", "byte", "empty", "other entry"])
def test_damaged_entry(damage, tmp_path):
    """It is compiled again, and the driver never sees it."""
    environment = {"TFR_CACHE_DIR": str(tmp_path)}
    first = run(call_some, FLOATS, **environment)
    assert first.nvrtc and first.paths == ["cuda", "cuda"]
    found = entries(tmp_path)
    assert len(found) == 2
    whole = [f.read_bytes() for f in found]
    for f, data, other in zip(found, whole, reversed(whole), strict=True):
        middle = len(data) // 2
        f.chmod(0o600)
        f.write_bytes(
            {
                "cut": data[:middle],
                "byte": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
                "empty": b"",
                "other entry": other,
            }[damage]
        )
    again = run(call_some, FLOATS, **environment)
    assert again.nvrtc and again.paths == ["cuda", "cuda"]
    assert len(again.warnings) <= 1
    later = run(call_some, FLOATS, **environment)
    assert not later.nvrtc and later.paths == ["cuda", "cuda"] and not later.warnings
