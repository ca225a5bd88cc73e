"""Bytes, indentation, bad input, the report of nothing: files that Git or an editor would mangle.

Kinds 57, 58, 63, 64 and 67 of the fault catalogue. Every input is made here from one base text.
"""

from __future__ import annotations

import ast
import re
import subprocess

import pytest
import torch
from edge_driver import (
    MODULE,
    Outcome,
    check_bytes,
    check_runs,
    check_second_run,
    decode,
    find_binary,
    rewrite_with_binary,
)

BASE = '''\
"""Docstring with \\1, $0, {braces}, %s and a backslash \\\\ in it."""
import torch
import torch.nn.functional as F
from torch import nn

TEXT = "plain text, \\1 $1 ${x} %(y)s {0}"  # \\g<1> $& {1}


class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)  # cast: \\1 $1
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)

    def forward(self, x):
        y = x
        if x is not None:
            if len(x) > 0:
                y = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class Untouched(nn.Module):
    def forward(self, x):
        text = """a string
    of several lines,
\\ta tab escape"""
        return x, text


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    yield Norm(8).to(dtype)(x)
    yield Mlp().to(dtype)(x)
    yield Untouched()(x)[1], TEXT, __doc__
'''
OPS = {"rms_norm": 1, "linears": 1, "act_mul": 1}


def rewritten(data: bytes, all_ops: bool = True) -> Outcome:
    """Rewrites, and checks all that holds for every file."""
    out = rewrite_with_binary(data)
    assert out.code == 0, out.stderr
    counts = {}
    for entry in out.report["fused"]:
        counts[entry["op"]] = counts.get(entry["op"], 0) + entry["count"]
    assert counts == OPS if all_ops else counts.items() <= OPS.items()
    check_bytes(data, out)
    check_second_run(out, rewrite_with_binary(out.text))
    assert check_runs(data, out.text, torch.float32) == 4
    return out


def same_edit(data: bytes, base: str = BASE) -> bytes:
    """The result has the syntax tree of the base text's result."""
    out = rewritten(data)
    plain = rewrite_with_binary(base.encode())
    assert ast.dump(ast.parse(out.text)) == ast.dump(ast.parse(plain.text))
    return out.text


# ---------------------------------------------------------------- kind_57: bytes outside the edit


def test_base():
    assert same_edit(BASE.encode()).decode().startswith('"""Docstring with \\1, $0')


@pytest.mark.parametrize("newline", ["\r\n", "\r"], ids=["crlf", "cr"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_line_ends(newline, bom):
    text = same_edit(bom + BASE.replace("\n", newline).encode())
    plain = rewrite_with_binary(BASE.encode()).text
    assert text == bom + plain.replace(b"\n", newline.encode())


def test_bom_alone():
    text = same_edit(b"\xef\xbb\xbf" + BASE.encode())
    assert text == b"\xef\xbb\xbf" + rewrite_with_binary(BASE.encode()).text


def test_mixed_line_ends():
    lines = BASE.split("\n")
    data = "".join(
        line + ("\r\n" if number % 3 == 0 else "\n") for number, line in enumerate(lines[:-1])
    )
    same_edit(data.encode())


@pytest.mark.parametrize("end", ["", "\n\n\n", "\n   ", "\n# end", "\n\t\n", "\n\f", "\n\x0c\n"])
def test_ends_of_file(end):
    data = BASE.rstrip("\n").encode() + end.encode()
    assert same_edit(data).endswith(b"TEXT, __doc__" + end.encode())


def test_match_at_the_very_end():
    """The last byte of the file belongs to the match; no newline is made up."""
    data = (
        BASE[: BASE.index("class Untouched")]
        + "def cases(dtype):\n    x = torch.randn(3, 8, dtype=dtype)\n"
        "    yield Norm(8).to(dtype)(x)\n    yield Mlp().to(dtype)(x)\n"
        "    yield Last()(x, x)\n\n\n"
        "class Last(nn.Module):\n    def forward(self, a, b):\n        return F.silu(a) * b"
    )
    out = rewrite_with_binary(data.encode())
    check_bytes(data.encode(), out)
    assert not out.text.endswith(b"\n")
    assert check_runs(data.encode(), out.text, torch.float32) == 4
    check_second_run(out, rewrite_with_binary(out.text))


def test_form_feeds():
    data = BASE.replace("\n\n\nclass", "\n\n\f\nclass").replace(
        "    def forward", "\f    def forward"
    )
    data = data.replace("from torch", "\f\ffrom torch")
    assert same_edit(data.encode()).count(b"\f") == data.count("\f")


def test_trailing_blanks_and_tabs():
    data = re.sub(r"\n(class|def|TEXT|\n)", r"  \t\n\1", BASE).replace("8, 16)\n", "8, 16)  \t \n")
    text = same_edit(data.encode())
    assert text.count(b"8, 16)  \t \n") == 2
    data = BASE.replace("super().__init__()", "super() . __init__\t( )\t# a\ttab")
    assert same_edit(data.encode()).count(b"super() . __init__\t( )\t# a\ttab") == 2


def test_blanks_inside_match():
    """Lines of the match with trailing blanks, and blank lines with blanks between them."""
    data = BASE.replace("keepdim=True)\n", "keepdim=True)   \n        \t\n  \n")
    data = data.replace("        dtype = x.dtype\n", "        dtype = x.dtype\t \n\n")
    same_edit(data.encode())


def test_wide_characters():
    """Columns are characters, offsets bytes: wide characters before, in and after the match."""
    data = BASE.replace("# cast: ", "# ☃ 漢字 𝔘𝔫𝔦 é\u0301 \u200b\u2028 ").replace(
        "variance", "дисперсия"
    )
    data = data.replace('"plain text', '"𝔘漢字\u2028\u0085\ufeff text').replace(
        "x is not None", "'漢字𝔘' and x is not None"
    )
    base = BASE.replace('"plain text', '"𝔘漢字\u2028\u0085\ufeff text').replace(
        "x is not None", "'漢字𝔘' and x is not None"
    )
    base = base.replace("variance", "дисперсия")
    text = same_edit(data.encode(), base).decode()
    assert "# ☃ 漢字 𝔘𝔫𝔦 é\u0301 \u200b\u2028 \\1 $1" in text


@pytest.mark.parametrize("coding", ["latin-1", "iso-8859-15", "cp1252", "koi8-r"])
@pytest.mark.parametrize("line", [1, 2])
def test_single_byte_encodings(coding, line):
    word = "кот" if coding == "koi8-r" else "café"
    head = ("#!/usr/bin/python\n" if line == 2 else "") + f"# -*- coding: {coding} -*-\n"
    data = (head + BASE.replace("plain text", word).replace("# cast", f"# {word}")).encode(coding)
    out = rewritten(data)
    assert f"# {word}: ".encode(coding) in out.text
    assert decode(out.text).count(word) == 2


def test_latin1_declared_as_utf8_is_refused():
    out = rewrite_with_binary(BASE.replace("plain", "café").encode("latin-1"))
    assert out.code == 3 and out.text is None
    assert f"{MODULE}.py" in out.stderr


@pytest.mark.parametrize(
    "data",
    [
        BASE.encode("utf-16"),
        BASE.encode("utf-32-le"),
        b"\x00" + BASE.encode(),
        BASE.encode() + b"\x00",
        b"# coding: no-such-encoding\n" + BASE.encode(),
        b"# coding: rot13\n" + BASE.encode(),
        b"\xef\xbb\xbf# coding: latin-1\n" + BASE.encode(),
        b"\x7fELF\x02\x01\x01\x00" * 100,
        BASE.encode().replace(b"plain", b"\xed\xa0\x80"),  # a surrogate
        BASE.encode().replace(b"plain", b"\xc0\xaf"),  # overlong
        BASE.encode().replace(b"plain", b"\xf5\x80\x80\x80"),  # beyond the last character
    ],
    ids=[
        "utf16", "utf32", "nul first", "nul last", "unknown", "rot13", "bom and coding", "binary",
        "surrogate", "overlong", "beyond",
    ],
)  # fmt: skip
def test_undecodable_is_refused(data):
    out = rewrite_with_binary(data)
    assert out.code == 3 and out.text is None, "Python does not read this file either"
    assert len(out.stderr.strip().splitlines()) == 1 and f"{MODULE}.py" in out.stderr


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_backslash_continuation(newline):
    data = BASE.replace("x = x * torch.rsqrt", "x = x \\\n            * torch.rsqrt")
    data = data.replace("y = self", "y = \\\n  self").replace(
        "import torch.nn.f", "import \\\n  torch.nn.f"
    )
    data = data.replace('"plain text', '"plain \\\ntext')
    text = same_edit(data.replace("\n", newline).encode())
    assert text.count(b"\r\n") == (text.count(b"\n") if newline == "\r\n" else 0)


def test_very_long_lines():
    data = BASE.replace("TEXT = ", f"LONG = [{'1, ' * 60000}]\nTEXT = ").replace(
        "# cast", "# cast" + "x" * 100000
    )
    base = BASE.replace("TEXT = ", f"LONG = [{'1, ' * 60000}]\nTEXT = ")
    same_edit(data.encode(), base)


# ---------------------------------------------------------------- kind_58: indentation


def reindent(text: str, unit: str) -> str:
    return re.sub(r"^(?:    )+", lambda m: unit * (len(m.group()) // 4), text, flags=re.M)


@pytest.mark.parametrize("unit", ["\t", " ", "  ", "   ", "        ", "\t "], ids=repr)
def test_indentation_units(unit):
    base = BASE.replace("\n    of several lines", "\nof several lines")
    text = same_edit(reindent(base, unit).encode(), base).decode()
    inside = text[text.index("class Norm") : text.index("class Untouched")]
    for line in inside.splitlines():
        blank = line[: len(line) - len(line.lstrip())]
        if "\t" in unit:
            assert not blank.replace(unit, ""), f"{line!r} is not indented by {unit!r}"
        else:
            assert "\t" not in blank and len(blank) % len(unit) == 0, line


def test_each_block_has_its_own_indentation():
    data = BASE.replace("\n    of several lines", "\nof several lines")
    norm, rest = data.split("class Mlp")
    data = reindent(norm, "\t") + "class Mlp" + reindent(rest, " ")
    same_edit(data.encode(), BASE.replace("\n    of several lines", "\nof several lines"))


def test_deep_blocks():
    """The edit stands 20 blocks deep: it keeps the block, however long its lines get."""
    levels = 20
    block = "".join("    " * (2 + n) + "if x is not None:\n" for n in range(levels))
    body = (
        "    " * (2 + levels) + "y = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))\n"
    )
    data = re.sub(r"        if x is not None:\n.*?\n.*?\n", lambda _: block + body, BASE, count=1)
    assert data.count("if x is not None") == levels
    rewritten(data.encode())


def test_body_on_the_line_of_its_head():
    """There is no place for another statement: a match that needs one may be left."""
    data = BASE.replace(
        "        if x is not None:\n            if len(x) > 0:\n                y = ",
        "        if x is not None: y = ",
    )
    rewritten(data.encode(), all_ops=False)


def test_several_statements_on_one_line():
    data = BASE.replace("x.dtype\n        x = x.to", "x.dtype; x = x.to").replace(
        "keepdim=True)\n        x = x *", "keepdim=True); x = x *"
    )
    rewritten(data.encode(), all_ops=False)


# ---------------------------------------------------------------- kind_63: not Python

INVALID = [
    "def f(:\n    pass\n",
    "class A\n    pass\n",
    "x = (1,\n",
    "x = 1)\n",
    "if x\n    y\n",
    "  x = 1\n y = 2\n",
    "def f():\nreturn 1\n",
    "x = 'unterminated\n",
    'x = """unterminated\n',
    "x = 1 +\n",
    "for in y: pass\n",
    "{'a': }\n",
    "lambda x: = 3\n",
    "@\ndef f(): pass\n",
    "x = [1, 2\ny = 3\n",
    "<html></html>\n",
    "?\n",
    "x = $y\n",
    "def f():\n\tif x:\n        y\n",
    "\\",
]
# tree-sitter takes these without an error, Python does not.
TOLERATED = [
    "print 'python two'\n",
    "exec 'python two'\n",
    "print >>f, 'x' if y else\n",
    "return = 3\n",
    "def f(a, a): pass\n",
    "def f(a=1, b): pass\n",
    "f(a=1, 2)\n",
    "f(**k, *a)\n",
    "x = *y\n",
    "1 = x\n",
    "f() = 3\n",
    "None = 3\n",
    "(a, b): int = 3\n",
    "break\n",
    "del f()\n",
    "x = 0777\n",
    "x = 1__0\n",
    "a <> b\n",
    "async x = 3\n",
    "import a.b as c.d\n",
    "from . import *, a\n",
    "except: pass\n",
    "with a as 1: pass\n",
    "[x for x in y if z else w]\n",
    "raise E, 'x'\n",
    "global x; x = `y`\n",
    "nonlocal x\n",
    "'a' b'c'\n",
    "x = {**a, 1}\n",
    "def f(*): pass\n",
    "if x = 3: pass\n",
    "yield = 1\n",
    "def f():\n        x = 1\n\ty = 2\n",
]


@pytest.mark.parametrize("text", INVALID)
def test_invalid_python_is_refused(text):
    with pytest.raises(SyntaxError):
        compile(text, "x", "exec")
    for data in (text, BASE + text):
        out = rewrite_with_binary(data.encode())
        assert out.code == 3 and out.text is None, f"{text!r} was taken"
        message = out.stderr.strip()
        assert len(message.splitlines()) == 1 and re.search(rf"{MODULE}\.py:\d+:\d+", message), (
            message
        )


@pytest.mark.parametrize("text", TOLERATED)
def test_tolerated_text_is_not_damaged(text):
    """Refused, or all around the edits is as it was, to the byte: first lines and bad ones."""
    with pytest.raises(SyntaxError):
        compile(text, "x", "exec")
    out = rewrite_with_binary((BASE + text).encode())
    assert out.code in (0, 3), out.stderr
    if out.code == 0:
        assert out.text.endswith(text.encode()) and out.text.startswith(BASE[:60].encode())
        tail = BASE[BASE.index("class Untouched") :] + text
        assert out.text.endswith(tail.encode())
    else:
        assert out.text is None and out.stderr.strip()


@pytest.mark.parametrize(
    "text", ["", "\n", "   ", "\t\n\f\n", "# only a comment", "\ufeff", "pass", '"""doc"""', "\r\n"]
)
def test_nearly_empty_files(text):
    out = rewrite_with_binary(text.encode())
    assert out.code == 0 and out.text == text.encode() and not out.report["changed"]


def test_every_cut_of_the_file():
    """Cut at any line, a file is either refused or rewritten into a program."""
    lines = BASE.splitlines(keepends=True)
    for end in range(len(lines)):
        data = "".join(lines[:end])
        out = rewrite_with_binary(data.encode())
        try:
            compile(data, "x", "exec")
        except SyntaxError:
            assert out.code == 3 and out.text is None, f"cut after line {end}"
        else:
            assert out.code == 0, out.stderr
            compile(out.text, "x", "exec")


# ---------------------------------------------------------------- kind_64: depth and size


def nested_ifs(n: int) -> str:
    return "".join(" " * k + "if x:\n" for k in range(n)) + " " * n + "pass\n"


LIMITS = {
    "parentheses": "x = " + "(" * 50000 + ")" * 50000,
    "hundred thousand brackets": "[" * 100000 + "]" * 100000,
    "open brackets": "(" * 100000,
    "closing brackets": ")" * 100000,
    "mixed brackets": "x = " + "([{" * 20000,
    "calls": "x = " + "f(" * 20000 + ")" * 20000,
    "chained calls": "x = f" + "()" * 50000,
    "attributes": "x = a" + ".b" * 100000,
    "subscripts": "x = a" + "[0]" * 50000,
    "minus signs": "x = " + "-" * 50000 + "1",
    "nots": "x = " + "not " * 50000 + "y",
    "lambdas": "x = " + "lambda: " * 20000 + "1",
    "conditionals": "x = " + "1 if y else " * 20000 + "2",
    "sum": "x = 1" + " + 1" * 100000,
    "powers": "x = 1" + " ** 1" * 30000,
    "comparisons": "x = 1" + " < 1" * 50000,
    "boolean": "x = a" + " and a" * 50000,
    "strings": "x = " + "'a' " * 50000,
    "list": "x = [" + "1," * 1000000 + "]",
    "dictionary": "x = {" + "1:2," * 300000 + "}",
    "arguments": "f(" + "a," * 200000 + ")",
    "parameters": "def f(" + ",".join(f"a{n}" for n in range(20000)) + "): pass",
    "targets": "a = " * 50000 + "1",
    "tuple targets": ",".join(f"a{n}" for n in range(50000)) + " = x",
    "blocks": nested_ifs(900),
    "ninety blocks": nested_ifs(90),
    "elifs": "if x: pass\n" + "elif x: pass\n" * 20000,
    "else ifs": "".join(" " * k + "if x: pass\n" + " " * k + "else:\n" for k in range(95))
    + " " * 95
    + "pass\n",
    "functions": "".join(f"def f{n}(x): return x\n" for n in range(30000)),
    "nested functions": "".join(" " * k + f"def f{k}():\n" for k in range(95))
    + " " * 95
    + "pass\n",
    "nested classes": "".join(" " * k + f"class C{k}:\n" for k in range(95)) + " " * 95 + "pass\n",
    "base classes": "class A0: pass\n"
    + "".join(f"class A{n}(A{n - 1}): pass\n" for n in range(1, 20000)),
    "cyclic bases": "class A(B):\n def forward(self, x): return self.y(x)\n"
    "class B(A):\n def forward(self, x): return self.y(x)\n",
    "own base": "class A(A):\n def forward(self, x): return super().forward(x)\n",
    "helpers in a circle": "def f(x): return g(x)\ndef g(x): return f(x)\n"
    "class A:\n def forward(self, x): return f(x)\n",
    "chain of helpers": "def f0(x): return x\n"
    + "".join(f"def f{n}(x): return f{n - 1}(x)\n" for n in range(1, 5000)),
    "helpers that double": "def f0(x): return x * x\n"
    + "".join(f"def f{n}(x): return f{n - 1}(f{n - 1}(x))\n" for n in range(1, 60))
    + "class A:\n def forward(self, x): return f59(x)\n",
    "statements": "def f(x):\n" + "    x = x * x\n" * 50000,
    "branches": "def f(x):\n" + "    if x: x = x + 1\n" * 20000,
    "loops": "def f(x):\n" + "    for i in x: x = x * i\n" * 10000,
    "squares": "def f(a):\n" + "    a = a * a + a\n" * 5000 + "    return a\n",
    "writes": "def f(a, b):\n" + "    a.mul_(2)\n    b = a.view(-1)\n" * 5000 + "    return a, b\n",
    "acts": "import torch.nn.functional as F\ndef f(a, b):\n" + "    a = F.silu(a) + b\n" * 5000,
    "decorators": "@a\n" * 20000 + "def f(): pass\n",
    "imports": "import a\n" * 50000,
    "semicolons": "x = 1;" * 100000,
    "comments": "# c\n" * 200000,
    "blank lines": "\n" * 1000000,
    "long string": "x = '" + "a" * 3000000 + "'",
    "long name": "x" * 1000000 + " = 1",
    "long number": "x = " + "1" * 4000,
    "f-strings": "x = " + "f'{" * 50 + "1" + "}'" * 50,
    "comprehensions": "x = " + "[" * 90 + "a" + " for a in b]" * 90,
    "continuation": "x = 1 + \\\n" * 50000 + "1",
    "ten megabytes": "x = 1\n" * 1700000,
    "just a bracket less": "x = " + "(" * 190 + "1" + ")" * 190,
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    """No crash, no endless run: the file as it was, or a refusal that names the file."""
    data = LIMITS[name].encode()
    out = rewrite_with_binary(data)
    assert out.code in (0, 3), f"exit status {out.code}: {out.stderr}"
    if out.code == 3:
        assert out.text is None and f"{MODULE}.py" in out.stderr
    elif out.text != data:
        compile(out.text, "x", "exec")
    if name in ("ten megabytes", "hundred thousand brackets", "blocks"):
        assert out.code == 3


def test_match_beside_a_big_literal():
    data = BASE.replace("TEXT = ", f"BIG = [{'1,' * 500000}]\nTEXT = ")
    out = rewrite_with_binary(data.encode())
    assert out.code == 0 and sum(entry["count"] for entry in out.report["fused"]) == 3


# ---------------------------------------------------------------- kind_67: nothing done is said


def say(data: str, tmp_path, *args: str) -> subprocess.CompletedProcess:
    path = tmp_path / f"{MODULE}.py"
    path.write_text(data)
    return subprocess.run(
        [find_binary(), *args, str(path)], capture_output=True, text=True, timeout=60, check=False
    )


def test_nothing_matched_is_said(tmp_path):
    """The source comes out as it was with status 0, and the report says that nothing was fused."""
    text = "import torch\n\n\nclass A:\n    def forward(self, x):\n        return x\n"
    done = say(text, tmp_path)
    assert done.returncode == 0 and done.stdout == text
    assert re.search(r"nothing|no match|not(hing)? fused|0 fused", done.stderr, re.I), done.stderr


def test_everything_refused_is_said_with_reasons(tmp_path):
    text = (
        BASE[: BASE.index("class Norm")]
        + """\
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        a = self.a(x)
        x.mul_(2)
        return a, self.b(x)
"""
    )
    done = say(text, tmp_path)
    assert done.returncode == 0 and done.stdout == text
    assert "Pair" in done.stderr and "linears" in done.stderr
    assert re.search(r"nothing|no match|0 fused", done.stderr, re.I), done.stderr


def test_what_was_fused_is_said_with_lines(tmp_path):
    done = say(BASE, tmp_path)
    assert done.returncode == 0 and "tfr.rms_norm(" in done.stdout
    for word in ("Norm", "Mlp", "rms_norm", "linears", "act_mul"):
        assert word in done.stderr
    line = next(n for n, text in enumerate(BASE.splitlines(), 1) if "F.silu" in text)
    assert str(line) in done.stderr
    assert not re.search(r"nothing was fused|nothing matched", done.stderr, re.I)


def test_only_without_a_match_is_said(tmp_path):
    done = say(BASE, tmp_path, "--only", "rope")
    assert done.returncode == 0 and done.stdout == BASE
    assert re.search(r"nothing|no match|0 fused", done.stderr, re.I), done.stderr
