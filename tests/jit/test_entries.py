"""The cache on disk, met by a model: what is there and sound is used and compiled by nobody; what
is not is moved aside, compiled again and warned of once. The outputs are right in every case.
"""

import os
import random
import shutil
import socket
import subprocess
import tempfile
from dataclasses import replace
from functools import cache as remember
from pathlib import Path

import faults
import pytest
from entries import Entry, check_sound, contents, kernels
from forked import Forked, run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


# ------------------------------------------------------------------ sound
def test_first_process_compiles_and_the_next_does_not(model, place):
    base = place / "made" / "on the way"
    assert model.check(compiled=4, TFR_CACHE_DIR=base) == []
    assert base.stat().st_mode & 0o777 == (base / "kernels").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in kernels(base)} == {0o600}
    model.check_healed(base)


def test_entries_do_not_depend_on_the_surroundings(model, warm, place):
    """Variables that compilers read, the time, folders of temporary files, umask, locale."""
    for name in ("include", "temp=orary folder"):
        (place / name).mkdir()
    (place / "include" / "stdint.h").write_text("#error planted\n")
    strange = dict.fromkeys(("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH"), place / "include")
    strange |= dict(CFLAGS="-O0 -ffast-math", CPPFLAGS="-DX_DTYPE=1", LDFLAGS="-lnothing")
    strange |= dict(GCC_EXEC_PREFIX="/nowhere/", COMPILER_PATH=place, SOURCE_DATE_EPOCH="1")
    strange |= dict(LANG="tr_TR.UTF-8", TMPDIR=place / "temp=orary folder", CC="false", TZ="Asia/X")

    def check():
        os.umask(0o777)
        os.chdir("/")
        return model.subject.run()

    real = dict(TFR_CC="cc", TFR_CACHE_DIR=place / "cache")
    outcome, warnings = run(check, **strange, **real)
    assert outcome.right and outcome.paths == {"jit"} and warnings == []
    assert contents(place / "cache") == contents(warm)


def test_a_compiler_that_complains_is_the_same_compiler(model, cache, place):
    """Where the current folder is gone, shells say so on standard error, before cc says its name."""
    (cache / "kernels").joinpath(*(f.name for f in (cache / "kernels").glob("*.tfrc"))).unlink()

    def check():
        (place / "gone").mkdir()
        os.chdir(place / "gone")
        (place / "gone").rmdir()
        return model.subject.run()

    assert model.check(check, compiled=0, TFR_CACHE_DIR=cache) == []


def test_a_moved_cache_still_serves(model, cache):
    moved = cache.with_name("elsewhere")
    cache.rename(moved)
    assert model.check(compiled=0, TFR_CACHE_DIR=moved) == []
    (moved.parent / "home").mkdir()
    shutil.copytree(moved, moved.parent / "home" / ".cache" / "tfrewrite")
    home = dict(HOME=moved.parent / "home", TFR_CACHE_DIR=None, XDG_CACHE_HOME=None)
    assert model.check(compiled=0, **home) == []


def test_wiped_while_in_use(model, cache):
    """What is loaded stays; what comes later is compiled and stored again."""

    def check():
        first = model.subject.run()
        shutil.rmtree(cache)
        again = model.subject.run()
        assert not cache.exists() and again.right and again.paths == {"jit"}
        import torch

        x = torch.randn(3, 24)
        torch.ops.tfr.rms_norm.cast_then_weight(x, x[0].contiguous(), 1e-6)
        return first

    assert model.check(check, compiled=1, TFR_CACHE_DIR=cache) == []
    assert len(kernels(cache)) == 1
    check_sound(cache)


def test_wiped_while_others_use_it(model, place):
    """Readers and writers meet a folder that vanishes again and again."""
    base = place / "cache"
    processes = [Forked(model.subject.run, TFR_CACHE_DIR=base) for _ in range(4)]
    while not all(process.has_ended() for process in processes):
        shutil.rmtree(base, ignore_errors=True)
    for process in processes:
        outcome = process.wait()
        assert outcome.right and outcome.paths == {"jit"}
        # No folder, or no file in it: each at most once.
        assert all("memory only" in w for w in process.warnings) and len(process.warnings) <= 2
    assert model.check(compiled=4 - len(kernels(base)), TFR_CACHE_DIR=base) == []
    model.check_healed(base)


# ------------------------------------------------------------------ layers
def test_a_read_only_layer_serves_and_is_not_written_to(model, cache, place):
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    layers = dict(TFR_CACHE_RO=f"{place}/none:{cache}", TFR_CACHE_DIR=place / "mine")
    assert model.check(compiled=0, **layers) == []
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before
    assert not (place / "mine").exists()


def test_what_a_read_only_layer_lacks_goes_to_the_users(model, cache, place):
    kernels(cache)[0].unlink()
    before = contents(cache)
    layers = dict(TFR_CACHE_RO=cache, TFR_CACHE_DIR=place / "mine")
    assert model.check(compiled=1, **layers) == []
    assert len(kernels(place / "mine")) == 1 and contents(cache) == before
    assert model.check(compiled=0, **layers) == []


def test_bad_entries_of_a_read_only_layer_stay_and_are_not_used(model, cache, place):
    cut, flipped, *_ = kernels(cache)
    cut.write_bytes(cut.read_bytes()[:-1])
    flipped.write_bytes(with_byte(flipped.read_bytes(), 1000, 0x80))
    before = contents(cache)
    layers = dict(TFR_CACHE_RO=cache, TFR_CACHE_DIR=place / "mine")
    (warning,) = model.check(compiled=2, **layers)
    assert "is not used" in warning and "moved" not in warning
    assert contents(cache) == before and len(kernels(place / "mine")) == 2
    assert len(model.check(compiled=0, **layers)) == 1


def test_no_kernel_in_a_sound_entry_of_a_read_only_layer(model, cache, place):
    """Only its packager could make such a thing; it must not hurt the user's own entry."""
    damage = forged(lambda e: replace(e, binary=shared_object("int x;")))
    damage(kernels(cache)[0], 0)
    before = contents(cache)
    layers = dict(TFR_CACHE_RO=cache, TFR_CACHE_DIR=place / "mine")
    for compiled in (1, 0):
        (warning,) = model.check(compiled=compiled, **layers)
        assert "is not used" in warning
        assert contents(cache) == before
        assert len(kernels(place / "mine")) == 1
        assert not list((place / "mine" / "kernels").glob("*.bad"))


# ------------------------------------------------------------------ unsound entries
def spread(size: int, count: int) -> list[int]:
    """Places in a file of `size` bytes: around each boundary of the format, and anywhere."""
    dice = random.Random(size)
    ends = [0, 1, 7, 8, 11, 12, 27, 28, 40, 47, 48, 49, 79, 80, size - 33, size - 32, size - 1]
    return (ends + [dice.randrange(size) for _ in range(count)])[:count]


def damaged(model, base: Path, damage) -> None:
    """`damage(path, i)` happens to every entry; then everything is as it was before."""
    for i, path in enumerate(kernels(base)):
        damage(path, i)
    (warning,) = model.check(compiled=4, TFR_CACHE_DIR=base)
    assert "is not used" in warning and ("moved aside" in warning or ".tfrk" in warning)
    assert len(list((base / "kernels").glob("*.bad"))) == 4
    check_sound(base)
    assert len(kernels(base)) == 4


def test_cut_at_every_kind_of_length(model, cache):
    whole = contents(cache)
    places = {name: spread(len(data), 24) for name, data in whole.items()}
    for turn in range(24):

        def cut(path, _, turn=turn):
            os.truncate(path, places[path.name][turn])

        damaged(model, cache, cut)
        assert contents(cache) == whole
        for path in (cache / "kernels").glob("*.bad"):
            path.unlink()
    model.check_healed(cache)


def test_any_bit_flipped(model, cache):
    whole = contents(cache)
    places = {name: spread(len(data), 24) for name, data in whole.items()}
    for turn in range(24):

        def flip(path, i, turn=turn):
            data = bytearray(path.read_bytes())
            data[places[path.name][turn]] ^= 1 << (turn + i) % 8
            path.write_bytes(data)

        damaged(model, cache, flip)
        assert contents(cache) == whole
        for path in (cache / "kernels").glob("*.bad"):
            path.unlink()
    model.check_healed(cache)


@remember
def shared_object(text: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        command = ["cc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", file.name]
        subprocess.run(command, input=text.encode(), check=True)
        return Path(file.name).read_bytes()


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def forged(change):
    """The entry changed and signed again, as only its owner could do."""

    def damage(path, _):
        path.write_bytes(change(Entry.read(path.read_bytes())).write())

    return damage


def by_bytes(change):
    return lambda path, _: path.write_bytes(change(path.read_bytes()))


def other_kernel(path, i):
    """The sound entry of another key."""
    path.write_bytes(Entry.read(path.read_bytes()).with_field("source", b"int x;\n").write())


def planted_link(path, _):
    elsewhere = path.parent.parent / path.name
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def planted_socket(path, _):
    path.unlink()
    folder = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(f"/proc/self/fd/{folder}/{path.name[-40:]}")  # paths of sockets are short
    os.close(folder)
    path.with_name(path.name[-40:]).rename(path)


def instead(make):
    def damage(path, _):
        path.unlink()
        make(path)

    return damage


DAMAGES = {
    "empty": by_bytes(lambda data: b""),
    "zeros": by_bytes(lambda data: bytes(len(data))),
    "text": by_bytes(lambda data: b"#!/bin/sh\nrm -rf /\n"),
    "appended": by_bytes(lambda data: data + b"\0"),
    "twice": by_bytes(lambda data: data + data),
    "bare_binary": by_bytes(lambda data: Entry.read(data).binary),
    "pickle": by_bytes(lambda data: b"\x80\x04\x95" + data),
    "sizes_overflow": by_bytes(lambda data: data[:12] + b"\xff" * 16 + data[28:]),
    "version": forged(lambda e: replace(e, version=2)),
    "version_0": forged(lambda e: replace(e, version=0)),
    "machine": forged(lambda e: replace(e, binary=with_byte(e.binary, 18, e.binary[18] ^ 1))),
    "bits": forged(lambda e: replace(e, binary=with_byte(e.binary, 4, 1))),
    "target": forged(lambda e: e.with_field("target", b"z80:")),
    "target_of_the_head": forged(lambda e: replace(e, target=b"x86_64:avx512f")),
    "compiler": forged(lambda e: e.with_field("compiler", b"gcc 1.0; 1.0; pdp11")),
    "options": forged(lambda e: e.with_field("options", b"-Ofast")),
    "abi": forged(lambda e: e.with_field("abi", b"999")),
    "kind": forged(lambda e: e.with_field("kind", b"cuda")),
    "other_kernel": other_kernel,
    "no_binary": forged(lambda e: replace(e, binary=b"")),
    "script": forged(lambda e: replace(e, binary=b"#!/bin/sh\n")),
    "half_binary": forged(lambda e: replace(e, binary=e.binary[: len(e.binary) // 2])),
    "program": forged(lambda e: replace(e, binary=Path("/bin/true").read_bytes()[:64])),
    "no_symbol": forged(lambda e: replace(e, binary=shared_object("int x;"))),
    "other_abi": forged(
        lambda e: replace(e, binary=shared_object("int tfr_kernel_entry[64] = {99};"))
    ),
    "link": planted_link,
    "dangling_link": instead(lambda path: path.symlink_to("/nowhere")),
    "link_to_itself": instead(lambda path: path.symlink_to(path.name)),
    "link_to_a_device": instead(lambda path: path.symlink_to("/dev/zero")),
    "fifo": instead(os.mkfifo),
    "socket": planted_socket,
    "folder": instead(os.mkdir),
    "group_may_write": lambda path, _: path.chmod(0o660),
    "all_may_write": lambda path, _: path.chmod(0o606),
    "huge": lambda path, _: os.truncate(path, 1 << 40),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_unsound_entries(model, cache, name):
    damaged(model, cache, DAMAGES[name])
    model.check_healed(cache)


@needs_root
def test_entries_of_another_user(model, cache):
    damaged(model, cache, lambda path, _: os.chown(path, faults.NOBODY, -1))
    model.check_healed(cache)


def test_bad_records_of_the_compiler(model, cache):
    """Its identity is asked for again."""
    (record,) = (cache / "kernels").glob("*.tfrc")
    whole = record.read_bytes()
    for damage in (b"", whole[:-10], whole.replace(b"gcc", b"GCC"), whole + b"x"):
        record.write_bytes(damage)
        (warning,) = model.check(compiled=0, TFR_CACHE_DIR=cache)
        assert "moved aside" in warning
        assert record.read_bytes() == whole


# ------------------------------------------------------------------ folders
def test_a_folder_that_others_may_write(model, cache):
    """Nothing in it is loaded, nothing is written, until that is put right."""
    for folder, mode in ((cache / "kernels", 0o770), (cache / "kernels", 0o1777), (cache, 0o720)):
        good = folder.stat().st_mode & 0o7777
        folder.chmod(mode)
        (warning,) = model.check(compiled=4, TFR_CACHE_DIR=cache)
        assert f"{folder} can be written by others" in warning
        folder.chmod(good)
    model.check_healed(cache)


@needs_root
def test_a_folder_of_another_user(model, cache):
    for folder in (cache / "kernels", cache):
        os.chown(folder, faults.NOBODY, -1)
        (warning,) = model.check(compiled=4, TFR_CACHE_DIR=cache)
        assert f"{folder} belongs to another user" in warning
        # Also where it is only read; a packager's folder is root's or the user's own.
        layers = dict(TFR_CACHE_RO=cache, TFR_CACHE_DIR=cache.with_name("mine"))
        shutil.rmtree(cache.with_name("mine"), ignore_errors=True)
        (warning,) = model.check(compiled=4, **layers)
        assert warning.startswith("TFR_CACHE_RO") and "belongs to another user" in warning
        os.chown(folder, 0, -1)
    model.check_healed(cache)


def test_a_link_in_place_of_the_folder(model, cache):
    elsewhere = cache / "elsewhere"
    (cache / "kernels").rename(elsewhere)
    (cache / "kernels").symlink_to(elsewhere)
    (warning,) = model.check(compiled=4, TFR_CACHE_DIR=cache)
    assert f"{cache}/kernels is a symbolic link" in warning
    (cache / "kernels").unlink()
    elsewhere.rename(cache / "kernels")
    # The way to the user's own folder may lead over links: ~/.cache on another disk.
    link = cache.with_name("link")
    link.symlink_to(cache)
    assert model.check(compiled=0, TFR_CACHE_DIR=link) == []


@pytest.mark.parametrize("what", ["file", "inner_file", "dangling", "loop", "long", "device"])
def test_no_folder_there(model, place, what):
    base = place / "cache"
    if what == "file":
        base.write_text("")
    elif what == "inner_file":
        base.mkdir()
        (base / "kernels").write_text("")
    elif what in ("dangling", "loop"):
        base.symlink_to("cache" if what == "loop" else "/nowhere/at/all")
    elif what == "long":
        base = base / ("x/" * 3000)
    else:
        base = Path("/dev/null")
    (warning,) = model.check(compiled=4, TFR_CACHE_DIR=base)
    assert warning.startswith("kernel cache: ") and "memory only" in warning


@pytest.mark.parametrize("name", ["ünï cödé", "new\nline", "'; touch planted; '", "%s%n", "-o x"])
def test_odd_names(model, place, name):
    base = place / name
    assert model.check(compiled=4, TFR_CACHE_DIR=base) == []
    model.check_healed(base)
    assert not (place / "planted").exists()
