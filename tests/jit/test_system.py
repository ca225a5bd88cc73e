"""The system around the cache fails: disks, users, mounts, limits, system calls, other processes
that die. The model's outputs are right; kernels are compiled and run from memory where they can.
"""

import errno
import os
import resource
import shutil
import signal
import time

import faults
import pytest
import torch
from entries import Entry, check_sound, contents, kernels
from forked import TIME_LIMIT, Forked, run

needs_mounts = pytest.mark.skipif(
    not faults.can_mount(), reason="neither root nor user namespaces: nothing can be mounted"
)
needs_seccomp = pytest.mark.skipif(
    not faults.can_refuse(), reason="seccomp is not to be had: system calls cannot be made to fail"
)


def name(number: int) -> str:
    return errno.errorcode[number]


@pytest.fixture
def after(model):
    """after(step, ...): a function that does these to its process, then runs the model."""

    def make(*steps):
        def run():
            for step in steps:
                step()
            return model.subject.run()

        return run

    return make


def leftovers(base) -> list[str]:
    return [path.name for path in (base / "kernels").glob("tmp.*")]


# ------------------------------------------------------------------ system calls that fail
FULL = (errno.ENOSPC, errno.EDQUOT)
NETWORK = (errno.EBUSY, errno.ESTALE, errno.EIO)
WRITING = (
    [(faults.OPEN_TEMPORARY, e) for e in (*FULL, *NETWORK, errno.EROFS, errno.EACCES)]
    + [(faults.MODE, errno.EPERM)]
    + [(faults.SYNC, e) for e in (*FULL, errno.EIO)]
    + [(faults.RENAME, e) for e in (*FULL, *NETWORK)]
)


def named(cases):
    return [pytest.param(*case, id=f"{case[0][0]}-{name(case[1])}") for case in cases]


@needs_seccomp
@pytest.mark.parametrize(("call", "error"), named(WRITING))
def test_writing_fails(model, after, place, call, error):
    (warning,) = model.check(
        after(lambda: faults.refuse((call, error))), compiled=4, TFR_CACHE_DIR=place
    )
    assert "memory only" in warning and os.strerror(error) in warning
    assert list((place / "kernels").iterdir()) == [place / "kernels" / "locks"]


@needs_seccomp
@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOSYS, errno.EPERM], ids=name)
def test_file_systems_without_exclusive_rename(model, after, place, error):
    faulty = after(lambda: faults.refuse((faults.RENAME, error)))
    assert model.check(faulty, compiled=4, TFR_CACHE_DIR=place) == []
    model.check_healed(place)


@needs_seccomp
@pytest.mark.parametrize(
    ("call", "error"),
    named(
        [(faults.OPEN_LOCKS, e) for e in (errno.EACCES, errno.ENOSPC, errno.ESTALE)]
        + [(faults.LOCK, e) for e in (errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EIO)]
    ),
)
def test_locks_fail(model, after, place, call, error):
    """They only save double work."""
    faulty = after(lambda: faults.refuse((call, error)))
    assert model.check(faulty, compiled=4, TFR_CACHE_DIR=place) == []
    model.check_healed(place)


@needs_seccomp
@pytest.mark.parametrize("error", [*NETWORK, errno.EACCES, errno.EMFILE, errno.ENOMEM], ids=name)
def test_reading_fails(model, after, cache, error):
    """A fault of the moment says nothing against the entry, which stays."""
    before = contents(cache)
    faulty = after(lambda: faults.refuse((faults.OPEN_ENTRY, error)))
    (warning,) = model.check(faulty, compiled=4, TFR_CACHE_DIR=cache)
    assert "cannot be read" in warning and os.strerror(error) in warning
    assert contents(cache) == before
    model.check_healed(cache)


# ------------------------------------------------------------------ disks
@needs_mounts
@pytest.mark.parametrize("options", ["size=16k", "size=40k", "nr_inodes=2", "nr_inodes=4"])
def test_a_full_disk(model, after, place, options):
    left = place.with_suffix(".left")

    def look():
        left.write_text("\n".join(leftovers(place)))

    def run():
        faults.own_mounts()
        faults.mount_memory(place, options + ",mode=0755")
        outcome = model.subject.run()
        look()
        return outcome

    try:
        (warning,) = model.check(run, compiled=4, TFR_CACHE_DIR=place)
        assert "memory only" in warning and os.strerror(errno.ENOSPC) in warning
        assert left.read_text() == ""
    finally:
        left.unlink(missing_ok=True)


@needs_mounts
def test_a_full_disk_for_temporary_files(model, place):
    """Another place is taken: /tmp, /dev/shm, /var/tmp."""

    def run():
        faults.own_mounts()
        faults.mount_memory(place, "size=16k,mode=0755")
        return model.subject.run()

    kept = place.with_suffix(".cache")
    try:
        assert model.check(run, compiled=4, TFR_CACHE_DIR=kept, TMPDIR=place) == []
        model.check_healed(kept)
    finally:
        shutil.rmtree(kept, ignore_errors=True)


@needs_mounts
def test_a_read_only_file_system(model, after, cache):
    mounted = after(faults.own_mounts, lambda: faults.make_read_only(cache))
    assert model.check(mounted, compiled=0, TFR_CACHE_DIR=cache) == []
    # A bad one cannot even be moved aside; it is not used, and compiled in each process.
    bad, *_ = kernels(cache)
    bad.write_bytes(b"")
    first, second = model.check(mounted, compiled=1, TFR_CACHE_DIR=cache)
    assert "is empty" in first and os.strerror(errno.EROFS) in second
    assert bad.read_bytes() == b""
    shutil.rmtree(cache / "kernels")
    (warning,) = model.check(mounted, compiled=4, TFR_CACHE_DIR=cache)
    assert os.strerror(errno.EROFS) in warning


@needs_mounts
def test_file_systems_without_execution(model, after, cache):
    """Neither the cache nor the folder of temporary files lets files be run."""
    temporary = cache.with_name("temporary")
    temporary.mkdir()

    def mount():
        faults.own_mounts()
        faults.mount_memory(temporary, "mode=0700", faults.MS_NOEXEC)
        faults.mount(str(cache), cache, None, faults.MS_BIND)
        flags = faults.MS_BIND | faults.MS_REMOUNT | faults.MS_NOEXEC
        faults.mount("none", cache, None, flags)

    places = dict(TFR_CACHE_DIR=cache, TMPDIR=temporary)
    assert model.check(after(mount), compiled=0, **places) == []
    kernels(cache)[0].unlink()
    assert model.check(after(mount), compiled=1, **places) == []
    if faults.can_refuse():  # then another place than TMPDIR is found
        no_memory_files = after(mount, lambda: faults.refuse((faults.MEMORY_FILE, errno.ENOSYS)))
        assert model.check(no_memory_files, compiled=0, **places) == []


# ------------------------------------------------------------------ loading
@needs_seccomp
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM, errno.EACCES, errno.ENFILE], ids=name)
def test_no_memory_files(model, after, cache, place, error):
    (place / "temporary").mkdir()
    faulty = after(lambda: faults.refuse((faults.MEMORY_FILE, error)))
    places = dict(TFR_CACHE_DIR=cache, TMPDIR=place / "temporary")
    assert model.check(faulty, compiled=0, **places) == []
    assert list((place / "temporary").iterdir()) == []


@needs_seccomp
@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES, errno.ENOMEM], ids=name)
def test_code_may_not_be_loaded(model, after, cache, error):
    """As under SELinux. The entries are not at fault, and stay."""
    before = contents(cache)
    faulty = after(lambda: faults.refuse((faults.MAP_CODE, error)))
    (warning,) = model.check(faulty, compiled=0, path="generic", TFR_CACHE_DIR=cache)
    assert "cannot be loaded" in warning
    assert contents(cache) == before
    model.check_healed(cache)


# ------------------------------------------------------------------ users and homes
def test_no_home(model, after, place):
    nothing = dict(TFR_CACHE_DIR=None, XDG_CACHE_HOME=None)
    for home in (None, ""):
        (warning,) = model.check(compiled=4, HOME=home, **nothing)
        assert "HOME is not set" in warning
    (warning,) = model.check(compiled=4, HOME="/proc/nowhere", **nothing)
    assert "/proc/nowhere/.cache/tfrewrite cannot be made" in warning
    # Relative paths in XDG_CACHE_HOME are to be ignored, and a home is made use of as it is.
    home = dict(TFR_CACHE_DIR=None, XDG_CACHE_HOME="relative", HOME=place / "home")
    assert model.check(compiled=4, **home) == []
    model.check_healed(place / "home/.cache/tfrewrite", XDG_CACHE_HOME=None)


def test_a_home_that_cannot_be_written_to(model, after, place):
    home = place / "home"
    home.mkdir(mode=0o555)
    environment = dict(TFR_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=home)
    try:
        (warning,) = model.check(
            after(faults.become_another_user), compiled=4, TMPDIR=None, **environment
        )
        assert "memory only" in warning
        assert list(home.iterdir()) == []
    finally:
        home.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_home_of_another_user(model, after, cache):
    """root's, after rights were given up; and one that was prepared for all, which only serves."""
    other = after(faults.become_another_user)
    (warning,) = model.check(other, compiled=4, TFR_CACHE_DIR=cache)
    assert "memory only" in warning
    shutil.rmtree(cache.with_name("x"), ignore_errors=True)
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (warning,) = model.check(other, compiled=4, TFR_CACHE_DIR=cache)
    assert "belongs to another user" in warning
    packaged = dict(TFR_CACHE_RO=cache, TFR_CACHE_DIR=None, HOME=None, XDG_CACHE_HOME=None)
    assert model.check(other, compiled=0, **packaged) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_rights_given_up_without_exec(model, after, place):
    """Then files of /proc/self belong to root."""

    def give_up():
        os.setresuid(faults.NOBODY, faults.NOBODY, faults.NOBODY)
        assert os.stat("/proc/self/maps").st_uid == 0

    os.chown(place, faults.NOBODY, -1)
    assert model.check(after(give_up), compiled=4, TFR_CACHE_DIR=place / "cache") == []


# ------------------------------------------------------------------ limits
def test_a_limit_on_the_size_of_files(model, after, place):
    """The signal that ends a program by default does not come."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))

    warnings = model.check(after(limit), compiled=0, path="generic", TFR_CACHE_DIR=place)
    assert len(warnings) == 1 and "cannot write" in warnings[0]
    assert kernels(place) == [] and leftovers(place) == []


def test_no_descriptors(model, after, cache):
    def limit():
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))

    outcome, warnings = run(after(limit), TFR_CACHE_DIR=cache)  # Python lacks some too
    assert outcome.right and "jit" not in outcome.paths and 1 <= len(warnings) <= 3, warnings
    model.check_healed(cache)


def test_no_processes(model, after, cache):
    """The compiler cannot be started."""
    kernels(cache)[0].unlink()

    def limit():
        faults.become_another_user()  # root has no such limit
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))

    if os.geteuid() == 0:
        for path in (cache, *cache.rglob("*")):
            os.chown(path, faults.NOBODY, -1)
    outcome, warnings = run(after(limit), TFR_CACHE_DIR=cache)
    assert outcome.right and outcome.paths == {"jit", "generic"}
    assert len(warnings) == 1 and "cannot run" in warnings[0], warnings


# ------------------------------------------------------------------ processes that die
def test_a_lock_whose_holder_stands_still_or_dies(model, compiler, place):
    waiting = place / "cc"
    waiting.write_text(f"""#!/bin/sh
case "$1" in -std=*)
    echo >> {place}/started
    while [ ! -e {place}/open ]; do sleep 0.02; done ;;
esac
exec {compiler.path} "$@"
""")
    waiting.chmod(0o755)
    base = place / "cache"
    places = dict(TFR_CACHE_DIR=base, TMPDIR=place)

    def start():
        (place / "started").unlink(missing_ok=True)
        process = Forked(model.subject.run, TFR_CC=waiting, **places)
        while not (place / "started").exists():
            assert not process.has_ended()
            time.sleep(0.005)
        return process

    killed = start()
    killed.kill()
    assert killed.end() == -signal.SIGKILL
    assert model.check(compiled=4, TFR_CACHE_DIR=base) == []
    shutil.rmtree(base)

    stopped = start()
    stopped.kill(signal.SIGSTOP)
    began = time.monotonic()
    assert model.check(compiled=4, TFR_CACHE_DIR=base) == []
    assert time.monotonic() - began < TIME_LIMIT / 2
    before = contents(base)
    stopped.kill(signal.SIGCONT)
    (place / "open").touch()
    outcome = stopped.wait()
    assert outcome.right and outcome.paths == {"jit"} and stopped.warnings == []
    assert contents(base) == before
    check_sound(base)


@needs_seccomp
def test_killed_two_hundred_times_while_writing(model, warm, place):
    """Before the mode, the bytes' way to the disk, and the name; and at any moment."""
    entry = next(p for p in kernels(warm) if b"rms_norm.cast" in p.read_bytes()[:100])
    (place / "kernel.so").write_bytes(Entry.read(entry.read_bytes()).binary)
    quick = place / "cc"
    quick.write_text(f"""#!/bin/sh
case "$1" in -std=*) ;; *) exec cc "$@" ;; esac
for input; do :; done
exec cp {place}/kernel.so "${{input%.c}}.so"
""")
    quick.chmod(0o755)
    base = place / "cache"
    (base / "kernels").mkdir(parents=True)
    for folder in (base, base / "kernels"):
        folder.chmod(0o700)
    places = dict(TFR_CACHE_DIR=base, TFR_CC=quick, TMPDIR=place)
    x = torch.randn(3, 32)

    def write(point):
        if point:
            faults.refuse((point, faults.KILL))
        torch.ops.tfr.rms_norm.cast_then_weight(x, x[0], 1e-6)

    run(write, None, **places)  # the compiler is known from here on
    ends, at_any_moment = [], []
    for _ in range(50):
        (base / "kernels" / entry.name).unlink(missing_ok=True)
        points = (faults.MODE, faults.SYNC, faults.RENAME)
        writers = [Forked(write, point, **places) for point in points]
        ends += [process.end() for process in writers]
        before = leftovers(base)
        process = Forked(write, None, **places)
        while leftovers(base) == before and not process.has_ended():
            pass
        process.kill()
        at_any_moment.append(process.end())
    assert ends == [-signal.SIGSYS] * 150
    assert set(at_any_moment) <= {-signal.SIGKILL, 0}  # it may come through
    assert len(leftovers(base)) >= 150
    assert all(Entry.read(path.read_bytes()).name() == path.name for path in kernels(base))
    assert model.check(compiled=4 - len(kernels(base)), TFR_CACHE_DIR=base) == []
    # What was left is removed when nobody can be at it any more.
    for path in (base / "kernels").glob("tmp.*"):
        os.utime(path, (time.time() - 7200,) * 2)
    kernels(base)[0].unlink()
    assert model.check(compiled=1, TFR_CACHE_DIR=base) == []
    assert leftovers(base) == []
    model.check_healed(base)
