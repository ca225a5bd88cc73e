"""Where rewritten sources are kept: <cache>/src/<digest>/<tail of the module>, beside a file that
says what they are.

The digest is over the source, the program, the rules, the options and the other files that were
read for it, so an entry is complete by its name alone. Which files those are is known after a first
run: an entry under the digest without them says so, and has no code (`find`, `keep`). An entry is a directory that appears by one rename: readers see all of it or
nothing. What is read back is checked, since it is code that will run; a directory that another user
could write to is not used. Every fault here is a CacheError, and the caller goes on without the
cache.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfrewrite.program import Result

FORMAT = 2
_ENTRY = "entry.json"


class CacheError(Exception):
    """The cache cannot be used; the message says why."""


def root() -> Path:
    """The cache directory: $TFR_CACHE_DIR, else tfrewrite in the XDG cache directory."""
    named = os.environ.get("TFR_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return Path(base) / "tfrewrite"
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise CacheError("no home directory: set TFR_CACHE_DIR")
    return Path(home) / ".cache" / "tfrewrite"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(fields: Mapping[str, Any]) -> str:
    text = json.dumps({"format": FORMAT, **fields}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _folder() -> Path:
    """<cache>/src, made if need be. Refuses what others could have written to."""
    folder = root() / "src"
    try:
        os.makedirs(folder.parent, mode=0o700, exist_ok=True)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _own(
            os.stat(folder.parent), folder.parent
        )  # may be a link: the cache as a whole can lie elsewhere
        _own(os.lstat(folder), folder)
    except OSError as error:
        raise CacheError(f"{folder}: {error.strerror}") from error
    return folder


def _own(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise CacheError(f"{path}: not a directory")
    if status.st_uid != os.geteuid():
        raise CacheError(f"{path}: belongs to another user")
    if status.st_mode & 0o022:
        raise CacheError(f"{path}: others may write to it (chmod go-w {path})")


def load(key: str, tail: str) -> tuple[Result, Path] | None:
    """The entry `key`, or None. A damaged one is put aside and reported as a CacheError."""
    entry = _folder() / key
    try:
        _own(os.lstat(entry), entry)
        meta = json.loads(_read(entry / _ENTRY))
        data = _read(entry / tail) if meta["changed"] else b""
        if meta["key"] != key or meta["sha256"] != sha256(data):
            raise ValueError("its checksum differs")
        reads = [str(path) for path in meta["reads"]]
        result = Result(data, meta["changed"], meta["fused"], meta["refused"], reads)
        return result, entry / tail
    except FileNotFoundError:
        if not entry.is_dir():
            return None
        reason = "a file is missing"
    except (ValueError, KeyError, TypeError) as error:
        reason = f"damaged ({error})"
    except OSError as error:
        reason = str(error.strerror)
    _put_aside(entry)
    raise CacheError(f"{entry}: {reason}; it was put aside and is made anew")


def _read(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read()


def _put_aside(entry: Path) -> None:
    aside = entry.with_name(f".bad-{entry.name}")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        os.rename(entry, aside)
    except OSError:
        pass  # read-only: it will be found again, and reported again


def save(key: str, tail: str, result: Result) -> Path:
    """Stores an entry and gives the path of its source. A race's loser leaves the winner's entry
    alone.
    """
    folder = _folder()
    try:
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    except OSError as error:
        raise CacheError(f"{folder}: {error.strerror}") from error
    try:
        data = result.data if result.changed else b""
        meta = {
            "key": key,
            "sha256": sha256(data),
            "changed": result.changed,
            "fused": result.fused,
            "refused": result.refused,
            "reads": result.reads,
        }
        if result.changed:
            os.makedirs((made / tail).parent, mode=0o700)
            _write(made / tail, data)
        _write(made / _ENTRY, json.dumps(meta).encode())
        try:
            os.rename(made, folder / key)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    except OSError as error:
        raise CacheError(f"{folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder / key / tail


# ------------------------------------------------------------------ with the files that were read
def _with_reads(fields: Mapping[str, Any], folder: str, reads: list[str]) -> str:
    """The digest with the content of other files, which are named as seen from `folder`."""
    content = []
    for name in reads:
        try:
            content.append([name, sha256((Path(folder) / name).read_bytes())])
        except OSError:  # missing: it was so then, or the result is another one
            content.append([name, None])
    return digest({**fields, "reads": content})


def find(fields: Mapping[str, Any], tail: str, folder: str) -> tuple[Result, Path] | None:
    """The result for a source in `folder`, if it and every file read for it are as they were."""
    known = load(digest(fields), tail)
    if known is None or not known[0].reads:
        return known
    return load(_with_reads(fields, folder, known[0].reads), tail)


def keep(
    fields: Mapping[str, Any], tail: str, folder: str, result: Result, since: float
) -> Path | None:
    """Stores a result that was made after the time `since`. None: a file read for it has changed
    meanwhile, so that nobody knows which content it stands for.
    """
    first = digest(fields)
    if not result.reads:
        return save(first, tail, result)
    reads = [os.path.relpath(path, folder) for path in result.reads]
    key = _with_reads(fields, folder, reads)
    for path in result.reads:
        if os.path.exists(path) and os.stat(path).st_mtime > since - 0.05:  # a coarse clock
            return None
    known = load(first, tail)
    if known is None or known[0].reads != reads:
        if known is not None:
            _put_aside(_folder() / first)
        save(first, tail, Result(b"", False, reads=reads))
    return save(key, tail, replace(result, reads=reads))


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
