"""Compilers that are not there, fail, hang, lie or litter: the generic kernels run, with one warning,
and nothing is stored, left running or left behind.
"""

import os
import shutil
import signal
import subprocess
import time
import unicodedata
from pathlib import Path

import pytest
from entries import Entry, contents, kernels
from forked import check_ends, runs

# Of a script: what it does when it is asked to compile; "$out" is where the kernel should be.
FAULTS = {
    "fails": ("echo 'kernel.c:1: error: out of ideas' >&2; exit 3", "out of ideas"),
    "fails_in_silence": ("exit 1", "status 1"),
    # Control characters, line ends, a turned direction, no UTF-8; and whatever comes.
    "garbage": (
        r"printf '\302\233\342\200\250\342\200\256\355\240\200\377';"
        " head -c 3000 /dev/urandom; exit 1",
        "status 1",
    ),
    "floods": ("head -c 20000000 /dev/zero | tr '\\0' x; exit 1", "status 1"),
    "crashes": ("kill -SEGV $$", "status 139"),
    "closes_its_output": ("exec >&- 2>&-; exit 1", "status 1"),
    "no_output": ("exit 0", "is no kernel"),
    "empty_output": (': > "$out"', "is no kernel"),
    "text": ('echo "#!/bin/sh" > "$out"', "no ELF file"),
    "object": ('cc -c -o "$out" "$input"', "no shared object"),
    "other_machine": (
        'cc "$@" && printf "\\xb7\\x7f" | dd of="$out" bs=1 seek=18 conv=notrunc status=none',
        "another architecture",
    ),
    "cut_off": ('cc "$@" && truncate -s -100 "$out"', "cut off"),
    "no_symbol": ('echo "int x;" | cc -shared -x c - -o "$out"', "no kernel of this version"),
    "other_version": (
        'echo "int tfr_kernel_entry[64] = {99};" | cc -shared -x c - -o "$out"',
        "no kernel of this version",
    ),
    "undefined": (
        'echo "int nothing(void), *tfr_kernel_entry = (int *)&nothing;" |'
        ' cc -shared -fPIC -x c - -o "$out"',
        "undefined symbol",
    ),
    "link": ('cc "$@" && mv "$out" "$out.real" && ln -s "$out.real" "$out"', "is no kernel"),
    "fifo": ('mkfifo "$out"', "is no kernel"),
    "folder": ('mkdir "$out"', "is no kernel"),
    "huge": ('truncate -s 1T "$out"', "is no kernel"),
}


@pytest.fixture
def script(place):
    def make(body: str, asked: str = "", name: str = "cc") -> Path:
        """A compiler: `body` for a compilation, `asked` before it says its version."""
        path = place / name
        path.write_text(f"""#!/bin/sh
for input; do :; done
out="${{input%.c}}.so"
case "$1" in
-std=*) echo >> {place}/runs
{body}
exit ;;
esac
{asked}
exec cc "$@"
""")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def good(compiler):
    """A compilation that works, for a script."""
    return f'{compiler.path} "$@"'


@pytest.fixture
def places(place):
    (place / "temporary").mkdir()
    return dict(TFR_CACHE_DIR=place / "cache", TMPDIR=place / "temporary")


def check_clean(place: Path) -> None:
    """Nothing lies about, but what a shared object may be kept for: it was whole and for this CPU."""
    assert list((place / "temporary").iterdir()) == []
    for path in kernels(place / "cache"):
        assert Entry.read(path.read_bytes()).name() == path.name


def is_one_line(text: str) -> bool:
    """As a terminal shows it; characters of a later Unicode than Python knows are no harm."""
    return not any(
        unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI")
        for c in text
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(model, script, good, place, places, fault):
    body, words = FAULTS[fault]
    (warning,) = model.check(compiled=0, path="generic", TFR_CC=script(body), **places)
    assert words in warning and is_one_line(warning), warning
    check_clean(place)
    # Always the same: it is not run for each kernel of the model.
    assert (place / "runs").stat().st_size <= 4
    # Once it works again, so does everything, but for what it was one of its faults to make:
    # a library that is whole and still cannot be loaded would not be better a second time.
    path = "generic" if fault == "undefined" else "jit"
    compiled = 0 if fault == "undefined" else 4
    warnings = model.check(compiled=compiled, path=path, TFR_CC=script(good), **places)
    assert len(warnings) == (fault in ("undefined", "no_symbol", "other_version")), warnings


@pytest.mark.parametrize("where", ["compiling", "saying its version"])
def test_hangs(model, script, place, places, where):
    """It is stopped, with all that it started."""
    hang = f"trap '' TERM INT HUP; sleep 1000 & echo $! > {place}/pid; wait"
    if where == "compiling":
        compiler, words = script(hang), "stopped after 1 seconds (TFR_CC_TIMEOUT)"
    else:
        compiler, words = script("", asked=hang), "does not say its version"
    began = time.monotonic()
    (warning,) = model.check(
        compiled=0, path="generic", TFR_CC=compiler, TFR_CC_TIMEOUT="1", **places
    )
    assert words in warning
    assert time.monotonic() - began < 60  # once, not for each kernel
    pid = int((place / "pid").read_text())
    check_ends(pid)
    check_clean(place)


def test_a_server_that_it_leaves_behind(model, script, good, place, places):
    """As ccache's and distcc's: it holds the pipe open, and is nobody's to wait for or to kill."""
    server = f"setsid sleep 1000 & echo $! >> {place}/pids; {good}"
    try:
        assert model.check(compiled=4, TFR_CC=script(server), **places) == []
        assert all(map(runs, servers(place)))
    finally:
        for pid in servers(place):
            os.kill(pid, signal.SIGKILL)


def servers(place: Path) -> list[int]:
    return list(map(int, (place / "pids").read_text().split()))


def test_talk_is_no_failure(model, script, good, places):
    body = good + ' && head -c 3000000 /dev/zero | tr "\\0" x && echo warning >&2'
    assert model.check(compiled=4, TFR_CC=script(body), **places) == []


# ------------------------------------------------------------------ none
@pytest.mark.parametrize("kind", ["missing", "folder", "no program", "bad interpreter", "options"])
def test_no_compiler_of_that_name(model, place, places, kind):
    named = place / "named"
    if kind == "folder":
        named.mkdir()
    elif kind != "missing":
        named.write_text("#!/nowhere/sh\n")
        named.chmod(0o755 if kind == "bad interpreter" else 0o644)
    if kind == "options":
        named = "cc -O0"
    (warning,) = model.check(compiled=0, path="generic", TFR_CC=named, **places)
    assert str(named) in warning
    check_clean(place)


@pytest.mark.parametrize("path", [None, "", "relative:.:", "/nowhere:/proc"])
def test_no_compiler_in_path(model, place, places, path, script):
    """One in the current folder, which anybody may have put there, is none."""
    script("touch ran")

    def run():
        os.chdir(place)
        return model.subject.run()

    (warning,) = model.check(run, compiled=0, path="generic", TFR_CC=None, PATH=path, **places)
    assert warning.startswith("no C compiler (cc, gcc, clang) is in PATH")
    assert not (place / "runs").exists()


def test_silent_about_its_version(model, script, places):
    for asked in ("exit 1", "exit 0", "kill -9 $$", "echo; exit"):
        (warning,) = model.check(
            compiled=0, path="generic", TFR_CC=script("exit 1", asked=asked), **places
        )
        assert "does not say its version" in warning


def test_a_bad_time_limit(model, compiler, places):
    for text in ("soon", "-1", "0", "nan", "1e99", "5s"):
        (warning,) = model.check(compiled=4, TFR_CC_TIMEOUT=text, **places)
        assert f"not {text}" in warning
        shutil.rmtree(places["TFR_CACHE_DIR"])


# ------------------------------------------------------------------ entries of others
def test_what_another_compiler_made_serves_where_there_is_none(model, cache, script, good):
    before = contents(cache)
    places = dict(TFR_CACHE_DIR=cache)
    assert model.check(compiled=0, TFR_CC=None, PATH="", **places) == []
    assert model.check(compiled=0, TFR_CC="/nowhere", **places) == []
    # And where one of another version fails.
    other = "case $1 in --version) echo 'cc 99'; exit ;; esac"
    warnings = model.check(compiled=0, TFR_CC=script("exit 1", asked=other), **places)
    assert len(warnings) == 1 and "status 1" in warnings[0]
    assert contents(cache) == before
    # One that works makes its own.
    assert model.check(compiled=4, TFR_CC=script(good, asked=other), **places) == []
    assert len(kernels(cache)) == 8 and before.items() <= contents(cache).items()


def test_one_compiler_by_any_name(model, cache, place, compiler):
    """cc and gcc, here or there, by a link or as it is, are one compiler: keys hold no paths."""
    if "gcc" not in subprocess.check_output(["cc", "-v"], stderr=subprocess.STDOUT, text=True):
        pytest.skip("cc is not gcc here")
    real = shutil.which("gcc")
    (place / "c99").symlink_to(real)
    for name in ("cc", "gcc", real, place / "c99"):
        assert model.check(compiled=0, TFR_CC=name, TFR_CACHE_DIR=cache) == []
    assert len(kernels(cache)) == 4
