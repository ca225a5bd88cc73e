"""`tfrewrite cache`: what it lists, verifies, explains and removes."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from cli_tool import environment, lines, names, run
from test_warmup import CONFIG, MODEL

DAY = 86400


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Path:
    """A cache with two kernels, compiled once."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "modeling_x.py").write_text(MODEL)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    env = environment(TFR_CACHE_DIR=str(folder / "cache"), TFR_CACHE_RO=None)
    done = run("warmup", folder, "--config", folder / "config.json", env=env)
    assert done.returncode == 0 and b"2 compiled" in done.stderr
    return folder / "cache"


@pytest.fixture
def cache(warm, tmp_path) -> Cache:
    shutil.copytree(warm, tmp_path / "cache")
    return Cache(tmp_path / "cache")


class Cache:
    def __init__(self, folder: Path, **variables: str | None) -> None:
        self.folder = folder
        self.kernels = folder / "kernels"
        self.variables = {"TFR_CACHE_DIR": str(folder), "TFR_CACHE_RO": None, **variables}

    def run(self, *args):
        return run("cache", *args, env=environment(**self.variables))

    def entries(self) -> list[Path]:
        return sorted(self.kernels.glob("*.tfrk"))

    def listing(self) -> list[dict]:
        done = self.run("ls", "--json")
        assert (done.returncode, done.stderr) == (0, b"")
        document = json.loads(done.stdout)
        assert document["version"] == 1
        return document["items"]


def test_path(tmp_path):
    def path(**variables):
        unset = {"TFR_CACHE_DIR": None, "XDG_CACHE_HOME": None, "TFR_CACHE_RO": None}
        return run("cache", "path", env=environment(**{**unset, **variables}))

    home = str(tmp_path)
    assert path(TFR_CACHE_DIR=home).stdout.decode() == f"{home}/kernels\n"
    assert path(XDG_CACHE_HOME=home).stdout.decode() == f"{home}/tfrewrite/kernels\n"
    assert path(HOME=home).stdout.decode() == f"{home}/.cache/tfrewrite/kernels\n"
    assert names(tmp_path) == []  # asking makes nothing


def test_empty(tmp_path):
    cache = Cache(tmp_path / "none")
    done = cache.run("ls")
    assert done.returncode == 0
    assert done.stdout.decode() == f"{cache.kernels}: empty\n"
    assert cache.listing() == []
    assert cache.run("verify").stdout == b"0 sound, 0 damaged\n"
    assert cache.run("gc").stdout == b"0 files removed, 0 B; 0 left, 0 B\n"
    assert not cache.folder.exists()


def test_ls(cache):
    done = cache.run("ls")
    first, *rest = lines(done.stdout)
    assert done.returncode == 0
    assert first.startswith(f"{cache.kernels}: 2 kernels, ") and first.endswith("KiB")
    kernels = [line for line in rest if "rms_norm.cast_then_weight" in line]
    assert len(kernels) == 2 and all(time.strftime("%Y-%m-%d", time.gmtime()) in k for k in kernels)
    assert {line.split()[0] for line in kernels} == {e.name[:12] for e in cache.entries()}
    assert "compilers asked:" in rest


def test_json(cache):
    items = cache.listing()
    kernels = [item for item in items if item["kind"] == "kernel"]
    assert {item["name"] for item in kernels} == {e.name for e in cache.entries()}
    for item in kernels:
        assert item["folder"] == str(cache.kernels) and item["read_only"] is False
        assert item["bytes"] == (cache.kernels / item["name"]).stat().st_size
        assert item["label"].startswith("rms_norm.cast_then_weight ORDER=CAST_WEIGHT")
        assert item["target"] and item["compiler"] and "fault" not in item
    (compiler,) = [item for item in items if item["kind"] == "compiler"]
    assert compiler["path"].startswith("/") and compiler["value"] == kernels[0]["compiler"]


def test_read_only_layer(cache, tmp_path):
    both = Cache(tmp_path / "own", TFR_CACHE_RO=str(cache.folder))
    done = both.run("ls")
    assert lines(done.stdout)[0].startswith(f"{cache.kernels} (read-only): 2 kernels")
    assert lines(done.stdout)[-1] == f"{both.kernels}: empty"
    assert all(item["read_only"] for item in both.listing())
    assert both.run("gc", "--max-size", "0").returncode == 0
    assert len(cache.entries()) == 2


def test_verify(cache):
    done = cache.run("verify")
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines(done.stdout) == ["3 sound, 0 damaged"]
    bad, good = cache.entries()
    data = bytearray(bad.read_bytes())
    data[-1] ^= 1
    bad.write_bytes(data)
    (item,) = [item for item in cache.listing() if item.get("fault")]
    assert item["name"] == bad.name and "label" not in item
    assert f"DAMAGED {bad.name}" in cache.run("ls").stdout.decode()
    done = cache.run("verify")
    assert done.returncode == 1
    fault, summary = lines(done.stdout)
    assert fault.startswith(f"{bad}: ")
    assert summary == "2 sound, 1 damaged, 1 moved aside"
    assert cache.entries() == [good]
    done = cache.run("verify", "--json")
    assert done.returncode == 0
    kinds = [item["kind"] for item in json.loads(done.stdout)["items"]]
    assert sorted(kinds) == ["compiler", "kernel", "quarantined"]


def test_why(cache):
    entry, other = cache.entries()
    done = cache.run("why", entry.name[:12])
    text = done.stdout.decode()
    assert done.returncode == 0
    assert entry.name in text and other.name not in text
    assert "target: the same" in text and "DIFFERS" not in text
    done = cache.run("why", "rms_norm.cast_then")
    assert entry.name in done.stdout.decode() and other.name in done.stdout.decode()
    elsewhere = Cache(cache.folder, TFR_HOST_ISA="baseline")
    assert "target: DIFFERS" in elsewhere.run("why", entry.name[:12]).stdout.decode()
    done = cache.run("why", "no-such-entry")
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(lines(done.stderr)) == 1


def test_gc(cache):
    first, second = cache.entries()
    assert cache.run("gc").returncode == 0 and len(cache.entries()) == 2
    long_ago = time.time() - 40 * DAY
    os.utime(first, (long_ago, long_ago))
    done = cache.run("gc", "--max-age", "30d")
    assert done.returncode == 0 and lines(done.stdout)[0].startswith("1 file removed, ")
    assert cache.entries() == [second]
    assert cache.run("gc", "--max-size", "1G").returncode == 0 and cache.entries() == [second]
    assert cache.run("gc", "--max-size", "0").returncode == 0 and cache.entries() == []


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Path:
    """A cache with two kernels for each of three targets."""
    return warm_for("sm_80,host,compute_90", tmp_path_factory.mktemp("mixed"))


def warm_for(arch: str, folder: Path) -> Path:
    (folder / "modeling_x.py").write_text(MODEL)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    env = environment(TFR_CACHE_DIR=str(folder / "cache"), TFR_CACHE_RO=None)
    arguments = ("--config", folder / "config.json", "--arch", arch, "--only", "rms_norm")
    done = run("warmup", folder, *arguments, env=env)
    assert done.returncode == 0, done.stderr
    return folder / "cache"


def test_pack_and_unpack(mixed, tmp_path):
    bundle = tmp_path / "bundle"
    done = Cache(mixed).run("pack", bundle)
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout.decode().startswith(f"6 kernels packed into {bundle}, ")
    cache = Cache(tmp_path / "there")
    done = cache.run("unpack", bundle)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        f"6 kernels: 6 stored, 0 there before (cache: {cache.kernels})\n"
    )
    assert [e.name for e in cache.entries()] == [e.name for e in Cache(mixed).entries()]
    assert all(
        a.read_bytes() == b.read_bytes() for a, b in zip(cache.entries(), Cache(mixed).entries())
    )
    before = {e: e.stat().st_ino for e in cache.entries()}
    assert b"0 stored, 6 there before" in cache.run("unpack", bundle).stdout
    assert {e: e.stat().st_ino for e in cache.entries()} == before
    # A damaged one is replaced, a sound one never.
    cache.entries()[0].write_bytes(b"damaged")
    assert b"1 stored, 5 there before" in cache.run("unpack", bundle).stdout
    assert cache.run("verify").stdout == b"6 sound, 0 damaged\n"


def test_the_same_kernels_give_the_same_bundle(mixed, tmp_path):
    """Whatever order, time and folder they were compiled in."""
    (tmp_path / "other").mkdir()
    again = warm_for("compute_90,sm_80,host", tmp_path / "other")
    for entry in Cache(again).entries():
        os.utime(entry, (0, 0))
    for name, folder in (("one", mixed), ("two", again), ("one again", mixed)):
        assert Cache(folder).run("pack", tmp_path / name).returncode == 0
    one = (tmp_path / "one").read_bytes()
    assert one == (tmp_path / "two").read_bytes() == (tmp_path / "one again").read_bytes()


def test_pack_for_some_architectures(mixed, tmp_path):
    cache = Cache(mixed)
    assert b"2 kernels packed" in cache.run("pack", tmp_path / "b", "--arch", "host").stdout
    done = cache.run("pack", tmp_path / "b", "--arch", "sm_80", "--arch", "compute_90")
    assert b"4 kernels packed" in done.stdout
    done = cache.run("pack", tmp_path / "none", "--arch", "sm_120a")
    assert done.returncode == 2 and not (tmp_path / "none").exists()
    assert b"no kernel to pack for these architectures" in done.stderr


def test_unpacked_as_a_read_only_layer(mixed, tmp_path):
    bundle, layer = tmp_path / "bundle", tmp_path / "layer"
    assert Cache(mixed).run("pack", bundle).returncode == 0
    done = Cache(tmp_path / "own").run("unpack", bundle, "-o", layer)
    assert done.returncode == 0 and f"(cache: {layer}/kernels)" in done.stdout.decode()
    both = Cache(tmp_path / "own", TFR_CACHE_RO=str(layer))
    assert len(both.listing()) == 6 and not both.folder.exists()
    # What a layer has is packed too, once.
    assert both.run("unpack", bundle).returncode == 0
    assert b"6 kernels packed" in both.run("pack", tmp_path / "again").stdout
    assert (tmp_path / "again").read_bytes() == bundle.read_bytes()


def test_damaged_kernels_are_not_packed(mixed, tmp_path):
    shutil.copytree(mixed, tmp_path / "cache")
    cache = Cache(tmp_path / "cache")
    cache.entries()[0].write_bytes(cache.entries()[1].read_bytes())
    done = cache.run("pack", tmp_path / "bundle")
    assert done.returncode == 0 and b"5 kernels packed" in done.stdout
    assert b"; 1 damaged left out, see `tfrewrite cache verify`" in done.stdout


def test_damaged_bundles_store_nothing(mixed, tmp_path):
    bundle = tmp_path / "bundle"
    assert Cache(mixed).run("pack", bundle).returncode == 0
    data = bundle.read_bytes()
    cache = Cache(tmp_path / "cache")
    for damaged in (b"", b"text", data[:-1], data + b"\0", data[:5000] + b"?" + data[5001:]):
        bundle.write_bytes(damaged)
        done = cache.run("unpack", bundle)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode().startswith(f"{bundle}: error: not unpacked: it")
        assert not cache.folder.exists()
    os.mkfifo(tmp_path / "pipe")
    assert b"no regular file" in cache.run("unpack", tmp_path / "pipe").stderr


def test_pack_where_nothing_can_be_written(mixed, tmp_path):
    done = Cache(mixed).run("pack", tmp_path / "none" / "bundle")
    assert done.returncode == 2 and b"cannot write" in done.stderr
    assert Cache(mixed).run("pack", tmp_path / "bundle").returncode == 0
    (tmp_path / "file").write_bytes(b"")
    done = Cache(tmp_path / "file").run("unpack", tmp_path / "bundle")
    assert done.returncode == 2 and b"error: kernel cache: " in done.stderr


def test_refused_folder(cache):
    """A folder that others may write to holds nothing to be believed."""
    cache.kernels.chmod(0o777)
    done = cache.run("ls")
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(lines(done.stderr)) == 1 and "error" in lines(done.stderr)[0]
