"""`tfrewrite warmup`: what it compiles, what it finds, what it says of the rest."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_tool import BIN, environment, lines, read_terminal, run, state

# Two norms of different sizes from one class, and a projection whose size is not in the file.
MODEL = """\
import torch
from torch import nn


class XNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.to(x.dtype)


class XLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = XNorm(config.hidden_size)
        self.head_norm = XNorm(config.hidden_size // config.heads)
        self.out = nn.Linear(getattr(config, "head_dim", 4), 8)

    def forward(self, x, y):
        return self.norm(x), self.out(y)
"""
CONFIG = {"hidden_size": 48, "heads": 4, "torch_dtype": "bfloat16"}
SUMMARY = re.compile(
    r"(\d+) kernels?: (\d+) compiled, (\d+) in the cache, (\d+) failed \(cache: (.*)\)"
)


class Place:
    """A folder with a model, its configuration and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = folder / "modeling_x.py"
        self.model.write_text(MODEL)
        self.cache = folder / "cache"
        self.environment = {"TFR_CACHE_DIR": str(self.cache), "TFR_CACHE_RO": None}
        self.configure(**CONFIG)

    def configure(self, **config) -> None:
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps(config))

    def run(self, *args, **options):
        env = environment(**self.environment, **options.pop("variables", {}))
        return run(*args, env=env, **options)

    def warm(self, *args, **options):
        return self.run("warmup", self.model, "--config", self.config, *args, **options)

    def labels(self) -> list[str]:
        listing = json.loads(self.run("cache", "ls", "--json").stdout)
        return [item["label"] for item in listing["items"] if item["kind"] == "kernel"]


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def counts(done) -> tuple[int, ...]:
    """Kernels, compiled, found, failed."""
    match = SUMMARY.fullmatch(lines(done.stderr)[-1])
    assert match, done.stderr
    return tuple(int(match[i]) for i in range(1, 5))


def test_compiles_once(place):
    before = state(place.model)
    done = place.warm("--arch", "host")
    assert (done.returncode, done.stdout) == (0, b"")
    assert counts(done) == (2, 2, 0, 0)
    (reason,) = lines(done.stderr)[:-1]
    assert reason == (
        "not warmed: linear in XLayer.forward line 25: "
        "the last size of x is not known: config.json has no head_dim"
    )
    assert str(place.cache) in lines(done.stderr)[-1]
    assert counts(place.warm()) == (2, 0, 2, 0)
    assert [label.split(" ")[-2] for label in place.labels()] == ["X_LAST=12", "X_LAST=48"]
    assert all("X_DTYPE=TFR_BF16" in label for label in place.labels())
    # A rewritten file needs the same.
    assert place.run("-w", "--target", "host", place.model).returncode == 0
    assert state(place.model) != before
    assert counts(place.warm()) == (2, 0, 2, 0)
    # Nothing is written anywhere else.
    assert sorted(os.listdir(place.folder)) == ["cache", "config.json", "modeling_x.py"]


def test_dtypes(place):
    done = place.warm("--dtype", "f32", "--only", "rms_norm")
    assert counts(done) == (2, 2, 0, 0)
    assert all("X_DTYPE=TFR_F32" in label for label in place.labels())
    place.configure(hidden_size=48, heads=4)
    assert counts(place.warm("--only", "rms_norm")) == (4, 2, 2, 0)  # both, when none is said
    place.configure(hidden_size=48, heads=4, dtype="float32")
    assert counts(place.warm("--only", "rms_norm")) == (2, 0, 2, 0)
    place.configure(hidden_size=48, heads=4, text_config={"dtype": "bfloat16"})
    assert counts(place.warm("--only", "rms_norm")) == (2, 0, 2, 0)


def test_only_what_is_chosen(place):
    assert counts(place.warm("--only", "rope")) == (0, 0, 0, 0)
    assert counts(place.warm("--skip", "linear,rms_norm,l2_norm")) == (0, 0, 0, 0)
    assert not place.cache.exists()


def test_several_files_and_standard_input(place):
    other = place.folder / "more" / "modeling_y.py"
    other.parent.mkdir()
    other.write_text(MODEL.replace("config.hidden_size // config.heads", "7"))
    done = place.run("warmup", place.folder, "--config", place.config, "--only", "rms_norm")
    assert counts(done) == (3, 3, 0, 0)
    done = place.run("warmup", place.model, other, "--config", place.config, "--only", "rms_norm")
    assert counts(done) == (3, 0, 3, 0)
    done = place.run(
        "warmup", "-", "--config", place.config, "--only", "rms_norm", stdin=MODEL.encode()
    )
    assert counts(done) == (2, 0, 2, 0)


def test_one_bad_file_among_good_ones(place):
    (place.folder / "modeling_bad.py").write_text("def (\n")
    done = place.run("warmup", place.folder, "--config", place.config, "--only", "rms_norm")
    assert done.returncode == 3
    assert "modeling_bad.py:1:" in lines(done.stderr)[0] and "refused" in lines(done.stderr)[0]
    assert counts(done) == (2, 2, 0, 0)


def test_verbose_and_quiet(place):
    done = place.warm("--verbose", "-j", "1", "--only", "rms_norm")
    assert [line.split(" ")[0] for line in lines(done.stderr)[:-1]] == ["1/2", "2/2"]
    assert "X_LAST=" in lines(done.stderr)[0]
    done = place.warm("-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_reasons_are_counted_unless_verbose(place):
    several = "".join(
        f"\n\nclass X{i}(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        f"        self.p = nn.Linear(config.none{i}, 2)\n\n    def forward(self, x):\n"
        f"        return self.p(x)\n"
        for i in range(20)
    )
    place.model.write_text("from torch import nn\n" + several)
    done = place.warm()
    assert len(lines(done.stderr)) == 14
    assert lines(done.stderr)[-2] == "not warmed: 8 more; --verbose lists them"
    assert len(lines(place.warm("-v").stderr)) == 21


def terminal(place: Place, *args, **variables) -> bytes:
    """Standard error, when it is a terminal."""
    mine, its = pty.openpty()
    child = subprocess.Popen(
        [BIN, "warmup", place.model, "--config", place.config, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=its,
        env=environment(**place.environment, **variables),
    )
    os.close(its)
    text = read_terminal(mine)
    assert child.communicate(timeout=120)[0] == b"" and child.returncode == 0
    return text


def test_progress_bar(place):
    text = terminal(place, "--only", "rms_norm", TERM="xterm")
    *bars, last = text.split(b"\r\x1b[K")
    assert bars[0] == b"" and bars[1].startswith(b"[---") and b" 0/2 " in bars[1]
    assert bars[-1].startswith(b"[###") and b" 2/2 " in bars[-1] and b"-]" not in bars[-1]
    assert all(len(bar) < 80 for bar in bars)
    assert SUMMARY.fullmatch(last.decode().strip())  # the bar is gone
    assert b"\x1b" not in terminal(place, "--only", "rms_norm", TERM="dumb")
    assert terminal(place, "-q", TERM="xterm") == b""


def test_no_compiler(place):
    done = place.warm(variables={"TFR_CC": str(place.folder / "none"), "PATH": "/nonexistent"})
    assert done.returncode == 2
    assert counts(done) == (2, 0, 0, 2)
    assert any("error: kernel rms_norm." in line for line in lines(done.stderr))
    # What is in the cache needs none.
    assert counts(place.warm()) == (2, 2, 0, 0)
    done = place.warm(variables={"TFR_CC": str(place.folder / "none"), "PATH": "/nonexistent"})
    assert (done.returncode, counts(done)) == (0, (2, 0, 2, 0))


def test_compiler_that_fails(place):
    compiler = place.folder / "cc"
    real = shutil.which("cc")
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*|*-dump*) exec {real} "$@";; esac\n'
        'echo "it is broken" >&2\nexit 1\n'
    )
    compiler.chmod(0o755)
    done = place.warm(variables={"TFR_CC": str(compiler)})
    assert done.returncode == 2
    assert counts(done) == (2, 0, 0, 2)
    assert any("it is broken" in line for line in lines(done.stderr))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "config.json:1:1: error: no valid JSON: the configuration of a model is one object"),
        ('{\n  "a": 1,\n}', "config.json:3:1: error: no valid JSON: nothing follows the comma"),
        ("{'a': 1}", "config.json:1:2: error: no valid JSON: a name in double quotes"),
        ('{"a": True}', "config.json:1:7: error: no valid JSON: a value is expected here"),
    ],
)
def test_bad_configuration(place, text, message):
    place.config.write_text(text)
    done = place.warm()
    (line,) = lines(done.stderr)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in line


def test_configuration_with_byte_order_mark_and_spaces(place):
    place.config.write_bytes(b"\xef\xbb\xbf  \n " + json.dumps(CONFIG).encode() + b"\n\n")
    assert place.warm("--only", "rope").returncode == 0


def test_text_of_the_configuration_stays_text(place):
    """A reason may quote it; a terminal must not obey it."""
    place.model.write_text(
        "from torch import nn\nfrom transformers.activations import ACT2FN\n\n\n"
        "class X(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)\n"
        "        self.act = ACT2FN[config.act]\n\n"
        "    def forward(self, x):\n        return self.act(self.a(x)) * self.b(x)\n"
    )
    place.configure(act="\x1b[31m\nred")
    done = place.warm("--only", "act_mul")
    assert done.returncode == 0 and b"\x1b" not in done.stderr and b"??[31m" not in done.stderr
    assert "?[31m?red" in lines(done.stderr)[0]


def test_cuda(place):
    """With no driver and no GPU: for each architecture the ops that have CUDA kernels."""
    chosen = ("--only", "rms_norm,linear")
    done = place.warm("--arch", "sm_90a,host,compute_80", *chosen)
    assert done.returncode == 0 and counts(done) == (6, 6, 0, 0)
    ends = [label.rsplit(" ", 1)[1] for label in place.labels()]
    assert sorted(ends) == ["WEIGHT_DTYPE=TFR_BF16"] * 2 + ["compute_80"] * 2 + ["sm_90a"] * 2
    assert counts(place.warm("--arch", "sm_90a", "-j", "1", *chosen)) == (2, 0, 2, 0)
    assert counts(place.warm("--arch", "host,host", *chosen)) == (2, 0, 2, 0)
    listing = json.loads(place.run("cache", "ls", "--json").stdout)["items"]
    (item, _) = [i for i in listing if i.get("target") == "sm_90a"]
    assert item["block"] > 0 and item["registers"] > 0 and "shared_bytes" in item
    assert item["compiler"].startswith("nvrtc 13.0, build ")
    assert all("block" not in i for i in listing if i.get("target", "x86").startswith(("x", "a")))


def test_cuda_dtypes(place):
    only = ("--only", "rms_norm")
    done = place.warm("--arch", "sm_75,sm_80", "--dtype", "bf16,f16,f32", *only)
    assert counts(done) == (10, 10, 0, 0)
    assert lines(done.stderr)[:-1] == ["not warmed: 2 kernels for sm_75, which has no bfloat16"]
    place.configure(hidden_size=48, heads=4, dtype="float16")
    assert counts(place.warm("--arch", "sm_75", *only)) == (2, 0, 2, 0)
    assert counts(place.warm(*only)) == (4, 4, 0, 0)  # the host: bfloat16 and float32
    assert counts(place.warm("--arch", "sm_75,host", *only)) == (8, 0, 8, 0)
    done = place.warm("--arch", "sm_75", "--dtype", "bf16", *only)
    assert (done.returncode, counts(done)) == (0, (0, 0, 0, 0))


def test_no_nvrtc(place):
    """The host's kernels are compiled; the first of the others says what is missing."""
    arguments = ("--arch", "sm_80,host", "--only", "rms_norm")
    done = place.warm(*arguments, variables={"TFR_NVRTC": "/nonexistent"})
    assert done.returncode == 2 and counts(done) == (4, 2, 0, 2)
    first, second, _ = lines(done.stderr)
    assert first == (
        "tfrewrite: warning: TFR_NVRTC=/nonexistent names no libnvrtc; CUDA kernels cannot be "
        "compiled"
    )
    assert second.endswith(" sm_80: there is no libnvrtc to compile it with")
    # What is in the cache needs none.
    assert counts(place.warm(*arguments)) == (4, 2, 2, 0)
    done = place.warm(*arguments, variables={"TFR_NVRTC": "/nonexistent"})
    assert done.returncode == 0 and counts(done) == (4, 0, 4, 0)


RULE = '''\
"""twice: x + x."""

from tfrewrite.rules import Tensor, op, ref

op("twice(Tensor x) -> Tensor", cpu="twice.c", specialize="x")


@ref("twice(x)", kernel="")
def twice(x: Tensor):
    return x + x.exp()
'''
TEMPLATE = """\
#include "kernel.h"
#ifndef X_LAST
#define X_LAST (c->in[0].size[c->in[0].ndim - 1])
#endif
static int tfr_plan(tfr_call *c) { c->units = X_LAST; return 0; }
static void tfr_run(const tfr_call *c, int64_t begin, int64_t end, void *scratch) {
    (void)c; (void)begin; (void)end; (void)scratch;
}
#define VALUES(X)
TFR_KERNEL("", VALUES)
"""


def test_rules_of_the_user(place):
    rules = place.folder / "rules"
    rules.mkdir()
    (rules / "twice.py").write_text(RULE)
    place.model.write_text(
        "from torch import nn\n\n\nclass X(nn.Module):\n    def __init__(self, config):\n"
        "        super().__init__()\n        self.p = nn.Linear(4, config.hidden_size)\n\n"
        "    def forward(self, x):\n        y = self.p(x)\n        return y + y.exp()\n"
    )
    done = place.warm("--rules", rules, "--only", "twice")
    assert done.returncode == 2 and b"twice.c: error: this kernel template" in done.stderr
    (rules / "twice.c").write_text(TEMPLATE)
    assert counts(place.warm("--rules", rules, "--only", "twice")) == (1, 1, 0, 0)
    assert place.labels() == ["twice.twice X_LAST=48"]
    assert counts(place.warm("--rules", rules, "--only", "twice")) == (1, 0, 1, 0)


CUDA_TEMPLATE = """\
extern "C" __global__ void __launch_bounds__(32) tfr_twice(long long *out) {
    out[0] = X_LAST + FAULT;
}
"""


def test_cuda_rules_of_the_user(place):
    """A template that does not compile: its lines are named, and the other kernels compiled."""
    rules = place.folder / "rules"
    rules.mkdir()
    (rules / "twice.py").write_text(RULE.replace('cpu="twice.c"', 'cpu="twice.c", cuda="twice.cu"'))
    (rules / "twice.c").write_text(TEMPLATE)
    (rules / "twice.cu").write_text('#include "device.h"\n' + CUDA_TEMPLATE)
    place.model.write_text(
        MODEL + "\n\nclass X(nn.Module):\n    def __init__(self, config):\n"
        "        super().__init__()\n        self.p = nn.Linear(4, config.hidden_size)\n\n"
        "    def forward(self, x):\n        y = self.p(x)\n        return y + y.exp()\n"
    )
    arguments = ("--arch", "sm_90a", "--rules", rules, "--only", "twice,rms_norm")
    done = place.warm(*arguments, variables={"TMPDIR": str(place.folder)})
    assert done.returncode == 2 and counts(done) == (3, 2, 0, 1)
    (error,) = [line for line in lines(done.stderr) if "error: kernel twice" in line]
    assert 'twice.cu(3): error: identifier "FAULT" is undefined [line 3: out[0] = X_LAST' in error
    assert len(list(place.folder.glob("tfrewrite-nvrtc-*.cu"))) == 1
    (rules / "twice.cu").write_text('#include "device.h"\n' + CUDA_TEMPLATE.replace("FAULT", "1"))
    assert counts(place.warm(*arguments)) == (3, 1, 2, 0)
    assert "twice.twice X_LAST=48 sm_90a" in place.labels()


def test_unusable_cache(place):
    """Kernels that nobody will find are no success."""
    place.cache.mkdir(mode=0o777)
    place.cache.chmod(0o777)
    done = place.warm()
    assert done.returncode == 2
    assert counts(done) == (2, 0, 0, 2)
    assert not list(place.cache.rglob("*.tfrk"))
