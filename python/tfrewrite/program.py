"""Finds and runs the C program `tfrewrite`, and gives its report as plain Python data.

The program is $TFR_BIN, else the one installed beside this package, else the one on PATH.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import tempfile
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REFUSED = 3  # the program's exit status
TIMEOUT = 60.0  # seconds; the largest modeling file takes well under one


class RewriteError(Exception):
    """The program is missing, failed, or refused the input. `status` is its exit status, if it had
    one.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Options:
    """What the program is asked for; part of the key of cached results."""

    rules: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    target: str = "auto"

    @classmethod
    def make(
        cls,
        rules: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        only: str | Iterable[str] | None = None,
        skip: str | Iterable[str] | None = None,
        target: str = "auto",
    ) -> Options:
        if target not in ("auto", "host", "cuda"):
            raise ValueError(f"target={target!r}: choose auto, host or cuda")
        folders = [rules] if isinstance(rules, (str, os.PathLike)) else list(rules or ())
        return cls(
            tuple(str(Path(f).resolve()) for f in folders),
            _names(only),
            _names(skip),
            target,
        )

    def arguments(self) -> list[str]:
        words = [word for folder in self.rules for word in ("--rules", folder)]
        if self.only:
            words += ["--only", ",".join(self.only)]
        if self.skip:
            words += ["--skip", ",".join(self.skip)]
        if self.target != "auto":
            words += ["--target", self.target]
        return words

    def identity(self) -> dict[str, Any]:
        """The options by content: the text of the rule files instead of their paths."""
        files = [p for folder in self.rules for p in sorted(Path(folder).glob("*.py"))]
        return {
            "rules": [[p.name, hashlib.sha256(p.read_bytes()).hexdigest()] for p in files],
            "only": list(self.only),
            "skip": list(self.skip),
            "target": self.target,
        }


def _names(value: str | Iterable[str] | None) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else list(value or ())
    return tuple(word.strip() for word in words if word.strip())


@dataclass(frozen=True)
class Result:
    """One rewritten source: its bytes, what was fused and refused (the entries of the --json
    report), and which other files it depends on.
    """

    data: bytes
    changed: bool
    fused: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)  # files that imports led to, absolute

    @property
    def text(self) -> str:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
        return self.data.decode(encoding)


def find() -> str:
    """The path of the program. Raises RewriteError when there is none."""
    named = os.environ.get("TFR_BIN")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise RewriteError(f"TFR_BIN={named}: not an executable file")
        return named
    beside = Path(__file__).resolve().parent / "bin" / "tfrewrite"
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("tfrewrite")
    if found is None:
        raise RewriteError(
            "the program `tfrewrite` is not installed: build it and set TFR_BIN, or put it on PATH"
        )
    return found


@functools.lru_cache(maxsize=8)
def _digest(path: str, _size: int, _mtime: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def identity() -> str:
    """The program by content: another build never meets the results of this one."""
    path = find()
    try:
        stat = os.stat(path)
        return _digest(os.path.realpath(path), stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise RewriteError(f"{path}: {error.strerror}") from error


def run(source: bytes, path: str | None, options: Options) -> Result:
    """Rewrites `source`, read from `path` (None: from nowhere). Raises RewriteError.

    The program gets the path itself, not a copy: its messages name it, and it may look at files
    beside it.
    """
    program = find()
    with tempfile.TemporaryDirectory(prefix="tfrewrite-") as folder:
        given, out = path or os.path.join(folder, "modeling.py"), os.path.join(folder, "out.py")
        if path is None:
            Path(given).write_bytes(source)
        command = [program, "--json", *options.arguments(), *_package(path), "-o", out, given]
        name = path or "<source>"
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            raise RewriteError(f"{name}: {program} did not finish within {TIMEOUT:g} s") from None
        except OSError as error:
            raise RewriteError(f"{name}: cannot run {program}: {error.strerror}") from error
        if done.returncode:
            raise RewriteError(_failure(name, given, done), done.returncode)
        try:
            (report,) = json.loads(done.stdout)["files"]
            changed = bool(report["changed"])
            data = Path(out).read_bytes() if changed else source
            reads = [file["path"] for file in report.get("reads", ())]
            result = Result(data, changed, list(report["fused"]), list(report["refused"]), reads)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise RewriteError(f"{name}: no usable report from {program}: {error!r}") from error
    if path is not None and Path(path).read_bytes() != source:
        raise RewriteError(f"{name}: the file changed while it was being rewritten")
    return result


def _package(path: str | None) -> list[str]:
    """Where code outside Transformers finds what it imports from there."""
    try:
        spec = importlib.util.find_spec("transformers")  # imports nothing
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if path is None or not folders or not os.path.isdir(folders[0]):
        return []
    inside = os.path.abspath(path).startswith(os.path.abspath(folders[0]) + os.sep)
    return [] if inside else ["--transformers", folders[0]]


def _failure(name: str, given: str, done: subprocess.CompletedProcess[bytes]) -> str:
    said = done.stderr.decode(errors="replace").replace(given, name).strip()
    lines = said.splitlines() or ["no message"]
    if done.returncode < 0:
        return f"{name}: the program died of signal {-done.returncode}: {lines[-1]}"
    if done.returncode == REFUSED:
        return f"{name}: refused: {lines[0]}"
    return f"{name}: exit status {done.returncode}: {lines[0]}"


def check(data: bytes, path: str) -> Any:
    """The code object of rewritten source, by Python's own parser. Raises RewriteError."""
    try:
        return compile(data, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RewriteError(
            f"{path}: Python does not accept the rewritten source: {error}"
        ) from error


def rewrite(
    src: str | bytes | os.PathLike[str],
    *,
    rules: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    target: str = "auto",
) -> Result:
    """Rewrites a source: text, bytes, or a path (pathlib.Path). Raises RewriteError."""
    options = Options.make(rules, only, skip, target)
    path = None if isinstance(src, (str, bytes)) else os.fspath(src)
    if path is not None:
        data = Path(path).read_bytes()
    else:
        data = src.encode() if isinstance(src, str) else src
    result = run(data, path, options)
    if result.changed:
        check(result.data, path or "<source>")
    return result
