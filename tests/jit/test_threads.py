"""Threads, forks, signals and time: kernels are asked for, compiled and loaded while other things
happen. Each test is a process that has torch, and loads tfrewrite afresh.
"""

import ctypes
import os
import platform
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import torch
from entries import check_sound, kernels
from forked import Forked, run

torch.set_num_threads(1)
KERNEL = dict(TFR_FORCE="linear:jit,linears:jit")
SYNC, ASYNC = KERNEL | dict(TFR_JIT="sync"), KERNEL | dict(TFR_JIT="async")


def until(condition) -> None:
    """Waits for what will happen, however slow the machine; forked.TIME_LIMIT ends it."""
    while not condition():
        time.sleep(0.005)


@pytest.fixture
def gate(compiler, place):
    """A compiler that notes its start in `started` and waits until `open` exists."""
    path = place / "cc"
    path.write_text(f"""#!/bin/sh
case "$1" in -std=*)
    echo $$ >> {place}/started
    while [ ! -e {place}/open ]; do sleep 0.02; done ;;
esac
exec {compiler.path} "$@"
""")
    path.chmod(0o755)
    return place


def in_threads(count: int, function) -> list:
    """Its results; all threads begin at once."""
    results, barrier = [None] * count, threading.Barrier(count)

    def one(i):
        barrier.wait()
        try:
            results[i] = function(i)
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    faults = [r for r in results if isinstance(r, BaseException)]
    if faults:
        raise faults[0]
    return results


# ------------------------------------------------------------------ the control word
@cache
def control_word():
    """MXCSR without its flags, of the calling thread."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "word.c"), Path(folder, "word.so")
        source.write_text(
            "unsigned word(void) { return __builtin_ia32_stmxcsr() & ~0x3fu; }\n"
            if platform.machine() == "x86_64"
            else "unsigned word(void) { return 0; }\n"
        )
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
        return ctypes.CDLL(str(library)).word


def denormals_survive() -> bool:
    smallest = torch.tensor([1e-45, 1e-40, 2e-39])
    return bool((smallest * 1.0 != 0).all() and (torch.tensor([2e-38]) * 0.25 != 0).all())


def test_the_control_word_stays():
    """With every kernel there is. They are compiled once per build."""
    word = control_word()
    base = Path(os.environ["TFR_BIN"]).resolve().parent / "test-cache"

    def check():
        signal.alarm(600)
        before = word()
        import calls

        every = calls.every()
        assert len(every) > 30

        def some(i):
            for call in every[i::4]:
                assert call.check() == "jit", call.name
                assert word() == before, call.name
            assert denormals_survive()

        in_threads(4, some)
        assert word() == before and denormals_survive()

    _, warnings = run(check, **SYNC, TFR_CACHE_DIR=base, TFR_CC=None)
    assert warnings == []


def test_a_kernel_does_not_flush_denormals(place):
    """It multiplies them as torch does, in both builds."""

    def check():
        import tfrewrite.ops  # noqa: F401

        x = torch.full((4, 16), 1e-39)
        got = torch.ops.tfr.act_mul.squared_relu_function(torch.ones(4, 16), x)
        assert torch.equal(got, x) and denormals_survive()

    for mode in ("sync", "off"):
        run(check, TFR_JIT=mode, TFR_CACHE_DIR=place, TFR_CC=None)


# ------------------------------------------------------------------ threads
def test_sixteen_threads_at_first_use(compiler, place):
    def check():
        import calls

        few = calls.few()

        def one(i):
            mine = random.Random(i).sample(few, len(few))
            return [call.check() for _ in range(3) for call in mine]

        paths = Counter(path for result in in_threads(16, one) for path in result)
        assert set(paths) == {"jit"}, paths
        assert denormals_survive()
        return len(few)

    before = compiler.runs()
    count, warnings = run(check, **SYNC, TFR_CACHE_DIR=place)
    assert warnings == []
    assert compiler.runs() - before == count == len(kernels(place))  # each of them once
    check_sound(place)


def test_sixteen_threads_and_the_background(compiler, place):
    def check():
        import calls
        from tfrewrite import kernels

        few = calls.few()
        in_threads(16, lambda i: [c.check() for c in random.Random(i).sample(few, len(few))])
        kernels.wait()
        time.sleep(0.03)  # a call asks every 20 ms whether its kernel is there
        for call in few:
            assert call.check() == "jit", call.name

    before = compiler.runs()
    _, warnings = run(check, **ASYNC, TFR_CACHE_DIR=place)
    assert warnings == []
    assert compiler.runs() - before == len(kernels(place))


def test_a_waiting_compiler_holds_nobody_up(gate):
    """The generic build runs until its kernel is there."""

    def check():
        import calls
        from tfrewrite import kernels

        few = calls.few()
        assert {call.check() for call in few} == {"generic"}
        until((gate / "started").exists)
        assert {call.check() for call in few for _ in range(10)} == {"generic"}
        (gate / "open").touch()
        kernels.wait()
        time.sleep(0.03)
        assert {call.check() for call in few} == {"jit"}

    _, warnings = run(check, **ASYNC, TFR_CACHE_DIR=gate / "cache", TFR_CC=gate / "cc")
    assert warnings == []


def test_a_compiler_that_does_not_say_its_version_holds_nobody_up(gate, compiler):
    (gate / "slow").write_text(f"""#!/bin/sh
echo $$ >> {gate}/started
while [ ! -e {gate}/open ]; do sleep 0.02; done
exec {compiler.path} "$@"
""")
    (gate / "slow").chmod(0o755)

    def check():
        import calls
        from tfrewrite import kernels

        few = calls.few()
        assert few[0].check() == "generic"
        until((gate / "started").exists)  # in the background
        assert {call.check() for call in few} == {"generic"}
        (gate / "open").touch()
        kernels.wait()
        time.sleep(0.03)
        assert {call.check() for call in few} == {"jit"}

    _, warnings = run(check, **ASYNC, TFR_CACHE_DIR=gate / "cache", TFR_CC=gate / "slow")
    assert warnings == []


# ------------------------------------------------------------------ forks
def test_fork_after_loading(compiler, place):
    """The child has its parent's kernels, and gets others by itself."""

    def child(calls_, more):
        assert {call.check() for call in calls_} == {"jit"}
        assert more.check() == "jit"

    def check():
        import calls

        few = calls.few()
        assert {call.check() for call in few[:-1]} == {"jit"}
        for process in [Forked(child, few[:-1], few[-1]) for _ in range(3)]:
            process.wait()
            assert process.warnings == []
        assert few[-1].check() == "jit"
        return len(few)

    count, warnings = run(check, **SYNC, TFR_CACHE_DIR=place)
    assert warnings == [] and len(kernels(place)) == count


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_fork_while_compiling(gate, mode):
    """The thread that compiles is not in the child, which compiles for itself."""

    def child(call, path, one):
        from tfrewrite import kernels

        if path == "generic":
            until(lambda: call.check() == path and (gate / "started").stat().st_size > one)
        (gate / "open").touch()
        assert call.check() in (path, "jit")
        kernels.wait()
        time.sleep(0.03)
        assert call.check() == "jit"

    def check():
        import calls
        from tfrewrite import kernels

        (call,) = [c for c in calls.few() if c.name == "rms_norm.no_weight"]
        thread = threading.Thread(target=call.check)
        thread.start()
        until((gate / "started").exists)
        one = (gate / "started").stat().st_size
        process = Forked(child, call, "generic" if mode == "async" else "jit", one)
        process.wait()
        thread.join()
        kernels.wait()
        time.sleep(0.03)
        assert call.check() == "jit"

    # Without a folder there is no lock between the two, for which the child would wait 5 seconds.
    cache = dict(TFR_CACHE_DIR="/proc/nowhere")
    run(check, **KERNEL, TFR_JIT=mode, TFR_CC=gate / "cc", **cache)


def test_forks_at_any_moment(place):
    """While other threads ask for new kernels all the time, no lock stays taken in a child."""

    def child(i):
        x = torch.randn(2, 7 + i)
        torch.ops.tfr.rms_norm.no_weight(x, 1e-6)
        os._exit(0)  # as multiprocessing does

    def check():
        import tfrewrite.ops  # noqa: F401

        def ask(start):  # each takes 0.2 MB
            for width in range(start, start + 400, 2):
                torch.ops.tfr.rms_norm.no_weight(torch.zeros(1, width), 1e-6)

        threads = [threading.Thread(target=ask, args=(100 + i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        count = 0
        while any(thread.is_alive() for thread in threads) or count < 10:
            process, count = Forked(child, count), count + 1
            assert process.end() == 0, (count, process.stderr)

    run(check, TFR_JIT="async", TFR_CACHE_DIR=place, TFR_CC="/bin/false")


# ------------------------------------------------------------------ signals, memory
def test_a_storm_of_signals(compiler, place):
    """System calls are interrupted every millisecond."""

    def check():
        import calls

        few = calls.few()[3:6]
        ticks = [0]

        def tick(*_):
            ticks[0] += 1

        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        paths = [call.check() for call in few]
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert paths == ["jit"] * len(few) and ticks[0] > 0
        return len(few)

    count, warnings = run(check, **SYNC, TFR_CACHE_DIR=place)
    assert warnings == [] and len(kernels(place)) == count
    check_sound(place)


def test_ten_thousand_hits_take_no_memory(compiler, place):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def check():
        import calls

        few = calls.few()

        def hits(count):
            with torch.no_grad():
                for i in range(count):
                    call = few[i % len(few)]
                    call.kernel(*call.arguments)

        hits(2000)
        before, descriptors = resident(), len(os.listdir("/proc/self/fd"))
        hits(10000)
        assert resident() - before < 1 << 20  # 100 bytes a call would show
        assert len(os.listdir("/proc/self/fd")) == descriptors

    _, warnings = run(check, **SYNC, TFR_CACHE_DIR=place)
    assert warnings == []


# ------------------------------------------------------------------ processes
def test_eight_processes_race_for_one_key(compiler, place):
    """One entry, of the bytes that each of them would have written."""

    def one(call, barrier):
        os.read(barrier, 1)
        return call.check()

    def race(base):
        import calls

        (call,) = [c for c in calls.few() if c.name == "rms_norm.no_weight"]
        reader, writer = os.pipe()
        racing = [Forked(one, call, reader) for _ in range(8)]
        os.write(writer, b"x" * 8)
        for process in racing:
            assert process.wait() == "jit"
            assert process.warnings == []

    entries = []
    for base in (place / "first", place / "second"):
        runs = compiler.runs()
        run(race, base, **SYNC, TFR_CACHE_DIR=base)
        assert 1 <= compiler.runs() - runs <= 8  # one, unless the machine stands still for seconds
        check_sound(base)  # no temporary file is left
        (entry,) = kernels(base)
        entries.append((entry.name, entry.read_bytes()))
    assert entries[0] == entries[1]


def test_readers_while_writers_come_and_go(compiler, place):
    """Entries vanish and come again; what is read is always whole."""

    def check():
        import calls

        (call,) = [c for c in calls.few() if c.name == "rms_norm.no_weight"]
        for _ in range(8):  # no kernel is loaded here, so each child looks on the disk
            readers = [Forked(call.check) for _ in range(4)]
            for entry in kernels(place):
                entry.unlink(missing_ok=True)
            for process in readers:
                assert process.wait() == "jit"
                assert process.warnings == []

    run(check, **SYNC, TFR_CACHE_DIR=place)
    check_sound(place)


def test_instruction_sets(compiler, place):
    """Another target is another entry; one that the CPU lacks, or that does not exist, is not asked
    for. x86-64 alone has more than one.
    """

    def check():
        import calls

        (call,) = [c for c in calls.few() if c.name == "rms_norm.no_weight"]
        return call.check()

    entries = 1 if platform.machine() == "x86_64" else 0
    for isa, count in ((None, 1), ("baseline", 1 + entries), ("z80", 1 + entries)):
        path, warnings = run(check, **SYNC, TFR_HOST_ISA=isa, TFR_CACHE_DIR=place, TFR_CC="cc")
        assert path == "jit" and len(kernels(place)) == count
        assert len(warnings) == (isa == "z80") and all("TFR_HOST_ISA" in w for w in warnings)
