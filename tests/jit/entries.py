"""Files of the cache (docs/CACHE.md), read and forged independently of jit/entry.c."""

import hashlib
import struct
from dataclasses import dataclass, replace
from pathlib import Path

_HEAD = struct.Struct("<8s10I")
_MAGIC = b"TFRKRNL\n"
VERSION = 1


@dataclass(frozen=True)
class Entry:
    label: bytes
    target: bytes
    key: bytes
    binary: bytes
    version: int = VERSION
    launch: tuple[int, int, int] = (0, 0, 0)

    @staticmethod
    def read(data: bytes) -> "Entry":
        magic, version, *numbers = _HEAD.unpack_from(data)
        assert magic == _MAGIC and version == VERSION and numbers[7:] == [0, 0]
        assert hashlib.sha256(data[:-32]).digest() == data[-32:]
        parts, at = [], _HEAD.size
        for size in numbers[:4]:
            parts.append(data[at : at + size])
            at += size
        assert at == len(data) - 32
        return Entry(*parts, version, tuple(numbers[4:7]))

    def write(self) -> bytes:
        parts = (self.label, self.target, self.key, self.binary)
        head = _HEAD.pack(_MAGIC, self.version, *map(len, parts), *self.launch, 0, 0)
        body = head + b"".join(parts)
        return body + hashlib.sha256(body).digest()

    def fields(self) -> dict[str, bytes]:
        """Of its key."""
        first, rest = self.key.split(b"\n", 1)
        assert first == b"tfrewrite key 1"
        found = {}
        while rest:
            head, rest = rest.split(b"\n", 1)
            name, size = head.split()
            found[name.decode()] = rest[: int(size)]
            assert rest[int(size) : int(size) + 1] == b"\n"
            rest = rest[int(size) + 1 :]
        return found

    def with_field(self, name: str, value: bytes) -> "Entry":
        fields = self.fields() | {name: value}
        key = b"tfrewrite key 1\n"
        for field, text in fields.items():
            key += b"%s %d\n%s\n" % (field.encode(), len(text), text)
        return replace(self, key=key, target=fields["target"])

    def name(self) -> str:
        """Of its file, as its key gives it."""
        compiler = self.fields()["compiler"]
        tail = b"compiler %d\n%s\n" % (len(compiler), compiler)
        first = hashlib.sha256(self.key.removesuffix(tail)).hexdigest()
        return f"{first}-{hashlib.sha256(compiler).hexdigest()[:16]}.tfrk"


def kernels(base: Path) -> list[Path]:
    return sorted((base / "kernels").glob("*.tfrk"))


def contents(base: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in kernels(base)}


def check_sound(base: Path) -> None:
    """Every file is an entry with the right name, or a choice; nothing is left half done."""
    for path in (base / "kernels").iterdir():
        if path.suffix == ".tfrk":
            assert Entry.read(path.read_bytes()).name() == path.name
        else:
            assert path.suffix in (".tfrc", ".bad") or path.name == "locks", path.name
