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


def test_refused_folder(cache):
    """A folder that others may write to holds nothing to be believed."""
    cache.kernels.chmod(0o777)
    done = cache.run("ls")
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(lines(done.stderr)) == 1 and "error" in lines(done.stderr)[0]
