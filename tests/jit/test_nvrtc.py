"""CUDA kernels through jit/: every target, what the cubins say against the compiler's own report,
cache hits without NVRTC, every fault of it, forks, threads and exits while it compiles. No GPU.
"""

import ctypes
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import HERE, ROOT
from entries import Entry, check_sound, kernels

PROGRAM = Path(os.environ["TFR_BIN"]).parent / "device_code"
ROWS = re.findall(
    r'^TFR_CUDA_TARGET\((\d+), (\d+), "(a?)"', (ROOT / "jit/target.def").read_text(), re.MULTILINE
)
MACHINE = [f"sm_{major}{minor}{suffix}" for major, minor, suffix in ROWS]
PTX = [f"compute_{major}{minor}" for major, minor, _ in ROWS]

PLAIN = """\
extern "C" __global__ void __launch_bounds__(128) tfr_plain(const float *x, float *y) {
    y[threadIdx.x] = x[threadIdx.x] + 1;
}
"""
SHARED = """\
extern "C" __global__ void __launch_bounds__(96) tfr_shared(const float *x, float *y) {
    __shared__ float all[300];
    __shared__ double sum;
    all[threadIdx.x] = x[threadIdx.x];
    sum = x[7];
    __syncthreads();
    y[threadIdx.x] = all[95 - threadIdx.x] + (float)sum;
}
"""
ARRAY = """\
extern "C" __global__ void __launch_bounds__(64) tfr_array(const int *x, int *y) {
    int all[50];
    for (int i = 0; i < 50; i++) all[i] = x[i];
    for (int i = 0; i < x[50]; i++) all[x[i] % 50] += i;
    int sum = 0;
    for (int i = 0; i < 50; i++) sum += all[i] * i;
    y[threadIdx.x] = sum;
}
"""
# 128 values live at once where a thread may have 64 registers.
SPILLS = """\
extern "C" __global__ void __launch_bounds__(1024) tfr_spills(const float *x, float *y) {
    float all[128];
#pragma unroll
    for (int i = 0; i < 128; i++) all[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 128; i++) y[i * 1024 + threadIdx.x] = all[127 - i] * all[i];
}
"""
BROKEN = """\
#define X_LAST 5
#line 1 "scale.cu"
extern "C" __global__ void __launch_bounds__(128) tfr_scale(const float *x, float *y) {
#line 7 "norm.h"
    int k = 1;
    y[threadIdx.x] = nothing(x, X_LAST);
#line 3 "scale.cu"
    z = k;
    // of a long file
}
"""


def library() -> Path:
    """NVRTC as tests/requirements.txt installs it."""
    found = [p for f in sys.path for p in Path(f).glob("nvidia/cu13/lib/libnvrtc.so.13")]
    assert found, "nvidia-cuda-nvrtc is not installed"
    return found[0]


class Nvrtc:
    """The library itself, called as jit/ should call it."""

    def __init__(self):
        for builtins in library().parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self._lib = ctypes.CDLL(str(library()))

    def _get(self, program, name: str) -> bytes:
        size = ctypes.c_size_t()
        assert getattr(self._lib, f"nvrtcGet{name}Size")(program, ctypes.byref(size)) == 0
        text = ctypes.create_string_buffer(size.value)
        assert getattr(self._lib, f"nvrtcGet{name}")(program, text) == 0
        return text.raw

    def compile(self, source: str, target: str, *more: str) -> tuple[bytes, str]:
        """The cubin or PTX, and the log."""
        options = [f"--gpu-architecture={target}", "--std=c++17", "--fmad=false", *more]
        program = ctypes.c_void_p()
        args = (ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
        assert self._lib.nvrtcCreateProgram(*args) == 0
        texts = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        assert self._lib.nvrtcCompileProgram(program, len(options), texts) == 0
        kind = "PTX" if target.startswith("compute") else "CUBIN"
        result = self._get(program, kind), self._get(program, "ProgramLog").decode()
        assert self._lib.nvrtcDestroyProgram(ctypes.byref(program)) == 0
        return result


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    return Nvrtc()


class Jit:
    """Processes that ask for kernels, with one cache."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.cache = folder / "cache"
        self.environment = {
            "PATH": os.environ["PATH"],
            "TFR_CACHE_DIR": str(self.cache),
            "TFR_NVRTC": str(library()),
            "TMPDIR": str(folder),
        }

    def source(self, text: str, name: str = "kernel.cu") -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def run(self, how: str, target: str, *sources: Path, **environment) -> list[str]:
        env = {k: str(v) for k, v in {**self.environment, **environment}.items() if v is not None}
        done = subprocess.run(
            [PROGRAM, how, target, *sources], env=env, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    def tool(self, *args: str) -> str:
        done = subprocess.run(
            [os.environ["TFR_BIN"], *args], env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def jit(place) -> Jit:
    return Jit(place)


@pytest.fixture
def fake(place) -> Callable[..., Path]:
    """Builds a libnvrtc of nvrtc_fake.c; its kernel is `cubin`."""

    def build(cubin: bytes = b"", name: str = "libnvrtc.so.13", *flags: str, **macros) -> Path:
        path = place / "fakes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / f"{path.name}.cubin").write_bytes(cubin)
        macros["CUBIN"] = f'"{path.parent}/{path.name}.cubin"'
        defines = [f"-D{k}={v}" for k, v in macros.items()]
        source = HERE / "nvrtc_fake.c"
        subprocess.run(["cc", "-shared", "-fPIC", *flags, *defines, source, "-o", path], check=True)
        return path

    return build


def only_warning(lines: list[str]) -> str:
    (warning,) = [line for line in lines if line.startswith("warning: ")]
    return warning.removeprefix("warning: ")


@pytest.mark.parametrize("target", MACHINE + PTX)
def test_every_target(jit, nvrtc, target):
    """Compiled once; then found, by a process that never maps NVRTC; the very bytes of NVRTC."""
    source = jit.source(SHARED)
    first, mapped = jit.run("sync", target, source)
    assert first.startswith("compiled tfr_shared ") and mapped == "nvrtc mapped"
    (path,) = kernels(jit.cache)
    entry = Entry.read(path.read_bytes())
    raw, _ = nvrtc.compile(SHARED, target)
    assert entry.binary == (raw.rstrip(b"\0") if target in PTX else raw)
    assert entry.fields()["kind"] == b"cuda" and entry.target == target.encode()
    assert entry.fields()["compiler"].startswith(b"nvrtc 13.0, build ")
    assert entry.launch[1:] == (1208, 96) and (entry.launch[0] > 0) == (target in MACHINE)
    for how in ("sync", "async"):
        again, *rest = jit.run(how, target, source)
        assert again == first.replace("compiled", "disk", 1) and rest[-1] == "nvrtc absent"
    check_sound(jit.cache)


@pytest.mark.parametrize("target", MACHINE)
def test_numbers_are_the_compilers(jit, nvrtc, target):
    sources = [PLAIN, SHARED, ARRAY, SPILLS]
    paths = [jit.source(text, f"{i}.cu") for i, text in enumerate(sources)]
    spilled = []
    for text, line in zip(sources, jit.run("sync", target, *paths)[:-1], strict=True):
        got = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", line)}
        _, log = nvrtc.compile(text, target, "--ptxas-options=-v")
        shared = re.search(r"(\d+) bytes smem", log)
        assert got["registers"] == int(re.search(r"Used (\d+) registers", log)[1])
        assert got["local"] == int(re.search(r"(\d+) bytes stack frame", log)[1])
        assert got["shared"] == (int(shared[1]) if shared else 0)
        assert got["block"] == int(re.search(r"launch_bounds__\((\d+)", text)[1])
        spilled.append(got["local"] > 0)
    assert spilled == [False, False, True, True]


def test_broken_source(jit):
    """The lines concerned, the library, the options, and a file to repeat it; not the source."""
    lines = jit.run("sync", "sm_90a", jit.source(BROKEN, "broken.cu"))
    text = only_warning(lines)
    assert lines[0] == "nowhere"
    assert text.startswith(
        'kernel broken.cu sm_90a: norm.h(8): error: identifier "nothing" is undefined '
        "[line 8: y[threadIdx.x] = nothing(x, X_LAST);]; "
        'scale.cu(3): error: identifier "z" is undefined [line 3: z = k;] (NVRTC 13.0, '
    )
    assert str(library()) in text and "--gpu-architecture=sm_90a" in text
    assert "of a long file" not in text and len(text) < 900
    repro = Path(re.search(r"to repeat it: (\S+\.cu)\)", text)[1])
    assert repro.parent == jit.folder and stat.S_IMODE(repro.stat().st_mode) == 0o600
    assert repro.read_text().endswith(BROKEN) and "// options: --gpu-arch" in repro.read_text()
    # The same fault leaves the same file.
    assert only_warning(jit.run("sync", "sm_90a", jit.source(BROKEN, "broken.cu"))) == text
    assert len(list(jit.folder.glob("tfrewrite-nvrtc-*"))) == 1


def test_one_bad_kernel_among_good_ones(jit):
    paths = [jit.source(text, f"{i}.cu") for i, text in enumerate([BROKEN] * 4 + [PLAIN])]
    assert jit.run("sync", "sm_80", *paths)[4].startswith("compiled tfr_plain")


def test_no_nvrtc(jit):
    source = jit.source(PLAIN)
    lines = jit.run("sync", "sm_80", source, TFR_NVRTC="/nonexistent")
    assert lines[0] == "nowhere" and lines[-1] == "nvrtc absent"
    assert only_warning(lines) == (
        "TFR_NVRTC=/nonexistent names no libnvrtc; CUDA kernels cannot be compiled"
    )
    lines = jit.run("async", "sm_80", source, source, TFR_NVRTC="/nonexistent")
    assert lines[0] == "nowhere" and only_warning(lines)
    # What is in the cache needs none, whichever version compiled it.
    jit.run("sync", "sm_80", source)
    lines = jit.run("sync", "sm_80", source, TFR_NVRTC="/nonexistent")
    assert lines[0].startswith("disk tfr_plain") and len(lines) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("int x;", "is no NVRTC of version 12 or newer: it has no nvrtcVersion"),
        (None, "cannot be loaded: "),
    ],
)
def test_wrong_library(jit, content, words):
    path = jit.folder / "libnvrtc.so.13"
    if content is None:
        path.write_bytes(b"hello")
    else:
        command = ["cc", "-shared", "-x", "c", "-", "-o", path]
        subprocess.run(command, input=content.encode(), check=True)
    lines = jit.run("sync", "sm_80", jit.source(PLAIN), TFR_NVRTC=path)
    assert lines[0] == "nowhere" and words in only_warning(lines)


def test_old_library(jit, fake):
    lines = jit.run("sync", "sm_80", jit.source(PLAIN), TFR_NVRTC=fake(MAJOR=11))
    assert "is NVRTC 11.0; 12.0 or newer is needed" in only_warning(lines)


def test_library_without_the_target(jit, fake):
    lines = jit.run("sync", "sm_100a", jit.source(PLAIN), TFR_NVRTC=fake(ARCHS="80,90"))
    assert " does not compile for sm_100a, only for 80, 90; " in only_warning(lines)


def test_result_that_is_no_kernel(jit, nvrtc, fake):
    free = PLAIN.replace("__launch_bounds__(128)", "")
    faults = {
        b"": "it is empty",
        b"\x7fELF": "it is no ELF file",
        nvrtc.compile(PLAIN, "sm_80")[0][:-10]: "it is cut off",
        nvrtc.compile(PLAIN, "sm_90a")[0]: "it is for another architecture",
        nvrtc.compile(free, "sm_80")[0]: "it has no __launch_bounds__",
    }
    for cubin, words in faults.items():
        lines = jit.run("sync", "sm_80", jit.source(PLAIN), TFR_NVRTC=fake(cubin))
        assert lines[0] == "nowhere"
        assert f": what NVRTC made is no kernel: {words}" in only_warning(lines)
    assert kernels(jit.cache) == []


def test_identity(jit, nvrtc, fake):
    """Another build is another compiler; a library without a build id is known by its bytes."""
    source, cubin = jit.source(PLAIN), nvrtc.compile(PLAIN, "sm_80")[0]
    one = fake(cubin, "one.so")
    two = fake(cubin, "two.so", "-Wl,--build-id=none")
    for origin in ("compiled", "disk"):
        for path in (one, two):
            lines = jit.run("sync", "sm_80", source, TFR_NVRTC=path)
            assert lines[0].startswith(f"{origin} tfr_plain") and len(lines) == 2
    assert len(kernels(jit.cache)) == 2
    assert str(two) in jit.tool("cache", "ls") and str(one) not in jit.tool("cache", "ls")
    with two.open("ab") as file:
        file.write(b" ")
    assert jit.run("sync", "sm_80", source, TFR_NVRTC=two)[0].startswith("compiled")
    assert len(kernels(jit.cache)) == 3


def test_options_from_the_environment_belong_to_the_key(jit):
    source = jit.source(PLAIN)
    jit.run("sync", "sm_80", source)
    lines = jit.run("sync", "sm_80", source, NVRTC_APPEND_FLAGS="--use_fast_math")
    assert lines[0].startswith("compiled") and len(kernels(jit.cache)) == 2


PLACES = {
    "VIRTUAL_ENV": "lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
    "CONDA_PREFIX": "lib/libnvrtc.so.12",
    "PATH": "../lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    "CUDA_HOME": "lib64/libnvrtc.so.13",
    "CUDA_PATH": "lib64/libnvrtc.so.12",
    "LD_LIBRARY_PATH": "libnvrtc.so.13",
}


def put_library(folder: Path, variable: str) -> Path:
    """A file where `variable` says it is; it is no library."""
    path = folder / variable / "bin" / PLACES[variable]
    path = Path(os.path.normpath(path))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no library")
    (folder / variable / "bin").mkdir(exist_ok=True)
    if variable == "PATH":
        (folder / variable / "bin" / "python3").symlink_to("/bin/true")
    return path


def test_where_it_is_looked_for(jit):
    """Each place, and each before those that follow it."""
    source = jit.source(PLAIN)
    found: dict[str, str] = {}
    expected = ""
    for variable in reversed(PLACES):
        expected = str(put_library(jit.folder, variable))
        found[variable] = str(jit.folder / variable / "bin")
        lines = jit.run("sync", "sm_80", source, **{"TFR_NVRTC": None, "PATH": "/none", **found})
        assert only_warning(lines).startswith(
            f"kernel kernel.cu sm_80: {expected} cannot be loaded"
        )
    # A folder will do, and what is named comes first.
    lines = jit.run("sync", "sm_80", source, **{**found, "TFR_NVRTC": library().parent})
    assert lines[0].startswith("compiled")


def test_fork_while_compiling(jit, nvrtc, fake):
    """The fork waits for the compilation; the child then has it, and compiles by itself."""
    paths = [jit.source(PLAIN, "1.cu"), jit.source(SHARED, "2.cu")]
    for variables in ({}, {"TFR_NVRTC": fake(nvrtc.compile(PLAIN, "sm_80")[0], SECONDS=1)}):
        shutil.rmtree(jit.cache, ignore_errors=True)
        lines = jit.run("fork", "sm_80", *paths, **variables)
        assert lines[:2] == ["nowhere", "child, forked soon"]
        assert re.match("(disk|compiled) tfr_plain", lines[2])
        assert lines[3].startswith("compiled ")
        assert "child ended with 0" in lines and lines[-3].startswith("memory tfr_plain")
        assert lines[-2].startswith("disk ")
        check_sound(jit.cache)


def test_fork_while_a_compilation_hangs(jit, nvrtc, fake):
    """The wait ends; the child leaves NVRTC alone, and says so. It has what its parent makes."""
    slow = fake(nvrtc.compile(PLAIN, "sm_80")[0], SECONDS=7)
    paths = [jit.source(PLAIN, "1.cu"), jit.source(SHARED, "2.cu")]
    lines = jit.run("fork", "sm_80", *paths, TFR_NVRTC=slow)
    assert lines[:2] == ["nowhere", "child, forked late"]
    assert lines[2].startswith("disk tfr_plain") and lines[3] == "nowhere"
    assert "this process was forked while NVRTC was compiling" in only_warning(lines)
    assert "child ended with 0" in lines and lines[-2].startswith("compiled ")


def test_threads(jit):
    """Two of them for each kernel: it is compiled once, and kernels at the same time."""
    sources = [PLAIN, SHARED, ARRAY, SPILLS]
    paths = [jit.source(text, f"{i}.cu") for i, text in enumerate(sources)]
    assert jit.run("threads", "sm_86", *paths)[:4] == ["same"] * 4
    assert len(kernels(jit.cache)) == 4


def test_async(jit):
    lines = jit.run("async", "sm_89", jit.source(PLAIN), jit.source(BROKEN, "broken.cu"))
    assert lines[:4] == ["nowhere", "nowhere", "busy 0", lines[3]]
    assert lines[3].startswith("memory tfr_plain") and lines[4] == "nowhere"
    assert "broken.cu" in only_warning(lines)


def test_exit_while_compiling(jit, nvrtc, fake):
    """The library's data is not destroyed under it, which _Exit(99) of the fake would show."""
    slow = fake(nvrtc.compile(PLAIN, "sm_80")[0], SECONDS=1)
    for _ in range(3):
        shutil.rmtree(jit.cache, ignore_errors=True)
        assert jit.run("exit", "sm_80", jit.source(PLAIN), TFR_NVRTC=slow) == ["nowhere"]
        assert jit.run("exit", "sm_80", jit.source(SHARED)) == ["nowhere"]


def test_damaged_entries_are_compiled_again(jit):
    source = jit.source(PLAIN)
    first = jit.run("sync", "sm_80", source)[0]
    (path,) = kernels(jit.cache)
    entry = Entry.read(path.read_bytes())
    damages = {
        path.read_bytes()[:-1]: "it is cut off",
        replace(entry, binary=b"hello").write(): "it is no ELF file",
        replace(entry, binary=entry.binary[:-10]).write(): "it is cut off",
    }
    for data, words in damages.items():
        path.write_bytes(data)
        lines = jit.run("sync", "sm_80", source)
        assert lines[0] == first and words in only_warning(lines)
        assert path.with_name(f"{path.name}.bad").read_bytes() == data
        assert path.read_bytes() == entry.write()


def test_forged_launch_numbers_are_not_believed(jit):
    source = jit.source(PLAIN)
    first = jit.run("sync", "sm_80", source)[0]
    (path,) = kernels(jit.cache)
    path.write_bytes(replace(Entry.read(path.read_bytes()), launch=(1, 2, 3)).write())
    assert jit.run("sync", "sm_80", source)[0] == first.replace("compiled", "disk", 1)


def test_read_only_layer(jit):
    source = jit.source(PLAIN)
    jit.run("sync", "compute_80", source)
    layer = jit.folder / "layer"
    jit.cache.rename(layer)
    own = jit.folder / "own"
    lines = jit.run("sync", "compute_80", source, TFR_CACHE_DIR=own, TFR_CACHE_RO=layer)
    assert lines[0].startswith("disk tfr_plain") and lines[1] == "nvrtc absent"
    assert not own.exists()
    # A damaged one there is passed over.
    kernels(layer)[0].write_bytes(b"")
    lines = jit.run("sync", "compute_80", source, TFR_CACHE_DIR=own, TFR_CACHE_RO=layer)
    assert lines[0].startswith("compiled") and "it is empty" in only_warning(lines)
    assert len(kernels(own)) == len(kernels(layer)) == 1


def test_why(jit):
    jit.run("sync", "sm_80", jit.source(PLAIN))
    text = jit.tool("cache", "why", "kernel.cu sm_80")
    assert "target: the same, sm_80" in text and f"NVRTC: {library()}" in text
    assert "this process uses it" in text
    jit.environment["TFR_NVRTC"] = "/nonexistent"
    text = jit.tool("cache", "why", "kernel.cu")
    assert "NVRTC: not found" in text and "an entry of any will do" in text
    assert "this process uses it" in text
