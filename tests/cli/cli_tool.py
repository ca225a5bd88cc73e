"""Runs the program that $TFR_BIN names; the example source that the tests here rewrite."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

BIN = os.environ["TFR_BIN"]
NOBODY = 65534
# The one that tests/requirements.txt installs, whatever environment is active.
(NVRTC,) = {str(p) for f in sys.path for p in Path(f).glob("nvidia/cu13/lib/libnvrtc.so.13")}
os.environ["TFR_NVRTC"] = NVRTC

# One MLP that is fused, and two projections that are not: their input changes in between.
EXAMPLE = b"""\
import torch
from torch import nn


class ExampleMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class ExampleAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x):
        q = self.q_proj(x)
        x.mul_(2)
        k = self.k_proj(x)
        return q, k
"""
PLAIN = b"x = 1\n"  # nothing in it resembles any rule


def environment(**changes: str | None) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return env


def run(*args, stdin: bytes = b"", **options) -> subprocess.CompletedProcess[bytes]:
    options.setdefault("env", environment())
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([BIN, *map(os.fspath, args)], input=stdin, timeout=120, **options)


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def state(path: Path) -> tuple:
    """What must stay the same in a file that is not to be touched."""
    info = os.lstat(path)
    return path.read_bytes(), info.st_mtime_ns, info.st_ino, info.st_mode, info.st_uid


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


class Unprivileged:
    """Runs the program without root's powers, on files below a folder that everybody may enter."""

    def __init__(self, folder: Path) -> None:
        self.root = os.geteuid() == 0
        self.folder = folder
        folder.chmod(0o755)
        for parent in folder.parents:  # pytest keeps its folders private
            if self.root and parent.stat().st_uid == 0 and parent.name.startswith("pytest"):
                parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
        self.bin = folder / "tfrewrite"
        shutil.copy(BIN, self.bin)
        self.bin.chmod(0o755)

    def own(self, path: Path) -> None:
        if self.root:
            os.chown(path, NOBODY, NOBODY)

    def run(self, *args) -> subprocess.CompletedProcess[bytes]:
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.root else {}
        return subprocess.run(
            [self.bin, *map(os.fspath, args)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            env=environment(),
            **who,
        )


def limit_file_size(size: int):
    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


def read_terminal(fd: int) -> bytes:
    """All that comes out of a pseudo-terminal until its other end is closed; closes this one."""
    text = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        text += part
    os.close(fd)
    return text
