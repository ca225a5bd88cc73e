"""Bad input: one clear message, the right exit status, and an original that stays as it is."""

from __future__ import annotations

import os
import random
import subprocess

import pytest
from cli_tool import BIN, EXAMPLE, Unprivileged, lines, run, state

DEEP = 100_000
PROSE = b"Dear reader, this is a letter. It is not a program; it has no lines of code at all.\n"

REFUSED = {
    "not Python": (PROSE, ""),
    "a page": (b"<!DOCTYPE html>\n<html><body class='x'>404</body></html>\n", ""),
    "invalid Python": (b"import x\n\n\ndef f(:\n    return 1\n", ":4:"),
    "invalid statement": (b"x = 1\nclass class X:\n    pass\n", ":2:"),
    "bracket never closed": (b"x = 1\ny = f(x\n\nz = 2\n", ":2:6: refused: this '(' is never"),
    "wrong bracket": (b"x = (1]\n", ":1:7: refused: this ']' does not close the '('"),
    "string never closed": (b"x = 'a\n", ":1:5: refused: this string is not closed"),
    "unexpected indentation": (b"x = 1\n  y = 2\n", ":2:3: refused: unexpected indentation"),
    "no block": (b"if x:\ny = 2\n", ":2:1: refused: an indented block is missing"),
    "dedent to nowhere": (b"if x:\n    y\n  z\n", ":3:3: refused: this indentation matches no"),
    "tabs and spaces": (b"if x:\n        y\n\tz\n", ":3:2: refused: tabs and spaces"),
    "10 MB": (b"x = 1  # comment\n" * (10_000_000 // 17), "larger than 8 MiB"),
    "nested brackets": (b"x = " + b"(" * DEEP + b")" * DEEP + b"\n", "more than 200 deep"),
    "open brackets": (b"[" * DEEP, "more than 200 deep"),
    "nested blocks": (
        b"".join(b" " * i + b"if x:\n" for i in range(150)) + b" " * 150 + b"pass\n",
        ":101:101: refused: blocks are nested more than 100 deep",
    ),
    "binary": (b"\x7fELF\x02\x01\x01\0\0\0", "is a binary file (NUL byte at offset 7)"),
    "one NUL": (EXAMPLE + b"\0\n", "is a binary file"),
    "UTF-16": ("x = 1\n".encode("utf-16"), "UTF-16"),
    "no UTF-8": (b"x = 1\ns = '\xe4'\n", ":2:6: refused: byte 0xe4 is not valid UTF-8"),
    "no UTF-8 as declared": (b"# coding: utf-8\ns = '\xe4'\n", ":2:6: refused: byte 0xe4"),
    "no ASCII as declared": (b"# coding: ascii\ns = '\xc3\xa4'\n", ":2:6: refused: byte 0xc3"),
    "unsupported encoding": (b"# coding: shift_jis\n", "shift_jis is not supported"),
    "unknown encoding": (b"# coding: klingon\n", "klingon is not supported"),
    "two encodings": (b"\xef\xbb\xbf# coding: latin-1\n", "starts with a UTF-8 signature"),
    "name beyond ASCII": (b"# coding: latin-1\n\xe4 = 1\n", ":2:1: refused: a character beyond"),
}
MODES = {
    "source": [],
    "in place": ["-w"],
    "output": ["-o", "out.py"],
    "diff": ["-d"],
    "check": ["--check"],
    "why": ["why"],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, mode, tmp_path):
    data, words = REFUSED[name]
    path = tmp_path / "modeling_x.py"
    path.write_bytes(data)
    before = state(path)
    done = run(*MODES[mode], "modeling_x.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, b""), done.stderr
    (line,) = lines(done.stderr)
    assert line.startswith("modeling_x.py:") and ": refused: " in line and words in line
    assert len(line) < 300
    assert state(path) == before
    assert os.listdir(tmp_path) == ["modeling_x.py"]


def test_refused_from_standard_input():
    done = run("-", stdin=PROSE)
    assert (done.returncode, done.stdout) == (3, b"")
    (line,) = lines(done.stderr)
    assert line.startswith("<stdin>:1:")


ACCEPTED = {
    "empty": b"",
    "one line end": b"\n",
    "a signature alone": b"\xef\xbb\xbf",
    "comments alone": b"# nothing\n\n    # at all",
    "latin-1 as declared": b"# coding: latin-1\ns = '\xe4'  # \xe4\n",
    "cp1252 in line 2": b"#!/usr/bin/python\r\n# vim: set fileencoding=cp1252 :\r\ns = '\x80'\r\n",
    "a signature and its name": b"\xef\xbb\xbf# coding: utf-8\ns = '\xc3\xa4'\n",
    "old line ends": b"x = 1\rif x:\r    y = 2\r",
    "200 brackets": b"x = " + b"(" * 200 + b")" * 200 + b"\n",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name, tmp_path):
    path = tmp_path / "modeling_x.py"
    path.write_bytes(ACCEPTED[name])
    done = run(path)
    assert (done.returncode, done.stdout) == (0, ACCEPTED[name]), done.stderr
    (line,) = lines(done.stderr)
    assert line.startswith("NOTHING WAS FUSED")


@pytest.mark.parametrize("coding", ["latin-1", "cp1252", "koi8-r"])
def test_other_encodings_are_rewritten_and_kept(coding, tmp_path):
    head = f"# coding: {coding}\n".encode()
    tail = b"\n# \xe4\xf6\xfc\ns = '\xe4\xf6\xfc'\n"
    done = run("-q", "-", stdin=head + EXAMPLE + tail)
    assert done.returncode == 0
    assert done.stdout.startswith(head) and done.stdout.count(b"\xe4\xf6\xfc") == 2
    assert b"tfr.act_mul(" in done.stdout
    compile(done.stdout, "modeling_x.py", "exec")


def test_unreadable(tmp_path):
    unprivileged = Unprivileged(tmp_path)
    path = tmp_path / "modeling_x.py"
    path.write_bytes(EXAMPLE)
    path.chmod(0)
    done = unprivileged.run(path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert lines(done.stderr) == [f"{path}: error: cannot read it: Permission denied"]


def test_missing_and_no_file(tmp_path):
    done = run(tmp_path / "none.py")
    assert (done.returncode, done.stdout) == (2, b"")
    assert lines(done.stderr) == [
        f"{tmp_path}/none.py: error: cannot read it: No such file or directory"
    ]
    (tmp_path / "loop.py").symlink_to("loop.py")
    done = run(tmp_path / "loop.py")
    assert done.returncode == 2 and b"symbolic links" in done.stderr
    folder = os.open(tmp_path, os.O_RDONLY)
    done = subprocess.run([BIN, "-"], stdin=folder, capture_output=True, timeout=60)
    os.close(folder)
    assert done.returncode == 2
    assert lines(done.stderr) == ["<stdin>: error: is a directory, not a file"]


def test_endless_input():
    with open("/dev/zero", "rb") as endless:
        done = subprocess.run([BIN, "-"], stdin=endless, capture_output=True, timeout=60)
    assert done.returncode == 3
    assert lines(done.stderr) == [
        "<stdin>: refused: larger than 8 MiB, the limit for one source file"
    ]


RULE_FAULTS = {
    "not Python": PROSE,
    "bracket never closed": b"from tfrewrite.rules import op\n\nop(\n",
    "binary": b"\0",
    "no UTF-8": b"# \xe4\n",
}


@pytest.mark.parametrize("name", RULE_FAULTS)
@pytest.mark.parametrize("mode", [["-w"], ["why"], ["--json"]], ids=["write", "why", "json"])
def test_rule_file_with_a_fault(mode, name, tmp_path):
    rules = tmp_path / "my_rules"
    rules.mkdir()
    (rules / "bad.py").write_bytes(RULE_FAULTS[name])
    path = tmp_path / "modeling_x.py"
    path.write_bytes(EXAMPLE)
    before = state(path)
    done = run("--rules", rules, *mode, path)
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = lines(done.stderr)
    assert line.startswith(f"{rules}/bad.py:") and "error: " in line
    assert state(path) == before


def test_any_bytes_end_in_a_status(tmp_path):
    """No crash and no other status, whatever the bytes: pieces of Python, shuffled and cut."""
    rng = random.Random(3)
    pieces = [EXAMPLE[i : i + 40] for i in range(0, len(EXAMPLE), 40)]
    pieces += [
        b"\0",
        b"\xff",
        b"\r",
        b"\t",
        b"(",
        b"]",
        b"'",
        b'f"{',
        b'"""',
        b"\\\n",
        b"\xef\xbb\xbf",
    ]
    for _ in range(150):
        data = b"".join(rng.choices(pieces, k=rng.randrange(60)))
        done = run("-", stdin=data)
        assert done.returncode in (0, 3), (done.returncode, data)
        assert done.returncode == 0 or len(lines(done.stderr)) == 1
        assert done.returncode == 3 or bool(done.stdout) == bool(data)
