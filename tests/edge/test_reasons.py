"""Every reason not to fuse: one of docs/ERRORS.md, the text it speaks of, and that it is reached."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from pathlib import Path

import edge_driver
import pytest
import reasons

HEAD = """\
from torch import nn


def plus(x, y):
    return x + y


class M(nn.Module):
    def __init__(self):
        self.gate, self.up, self.act = nn.Linear(8, 8), nn.Linear(8, 8), nn.SiLU()
        self.norm = nn.LayerNorm(8)

    def forward(self, x, c):
"""
MLP = "return self.act(self.gate(x)) * self.up(x)"
NESTED = "".join(" " * i + f"if self.a{i}:\n" for i in range(9))
# The body of a forward -> the reason's kind, and the text found: kinds that no input here has.
BODIES = {
    "elif": ("if c:\n x = 0\n" + "elif c == 1:\n x = 1\n" * 151 + MLP, "an if st", "elif c =="),
    "targets": (
        " = ".join("abdefghijklmnopqx") + " = y = x\n" + MLP,
        "an assignment with",
        "a = b",
    ),
    "walrus": ("[y := 1 for _ in x]\n" + MLP, "an assignment inside", "y := 1"),
    "star": ("from math import *\n" + MLP, "import * inside", "*"),
    "type": ("type X = int\n" + MLP, "a statement that is not supported", "type X = int"),
    "conditions": (
        "y = self.gate(x)\n" + NESTED + " " * 9 + "z = self.up(x)\nreturn y",
        "branch: it runs under more than 8",
        "self.a0",
    ),
    "helper": (
        "y = plus(self.up(x), x)\nreturn self.norm(y), y",
        "one of its results is made inside a call",
        "plus(self.up(x), x)",
    ),
}
# Kinds that take more than a small program, or that another check stands before.
NOT_REACHED = (
    "a comment inside",
    "an input is made inside",
    "the op takes a tensor here",
    "branch: under this condition alone",
    "the helper gets this argument",
    "this helper takes the inputs in another order",
    "its parts are in ...",
    "it is made by code of another file",  # tests/cli/test_imports.py
    "the function is too large",
    "this must be ",
)


def refusals(*paths: Path) -> list[tuple[Path, dict]]:
    done = subprocess.run(
        [edge_driver.find_binary(), "--json", *map(str, paths)], capture_output=True, text=True
    )
    files = json.loads(done.stdout)["files"]
    return [(Path(file["path"]), refused) for file in files for refused in file["refused"]]


@pytest.fixture(scope="module")
def of_inputs():
    edge = sorted(edge_driver.EDGE.glob("[0-9][0-9]_*/*.py"))
    return refusals(*edge, *sorted((edge_driver.ROOT / "tests/hub/code").glob("*.py")))


@pytest.mark.parametrize("name", BODIES)
def test_kinds(name, tmp_path):
    body, kind, found = BODIES[name]
    path = tmp_path / "modeling_x.py"
    path.write_text(HEAD + textwrap.indent(body, " " * 8) + "\n")
    rows = [r for _, r in refusals(path)]
    assert rows and all(r["reason"].startswith(kind) for r in rows), rows
    assert all(r["found"].startswith(found) for r in rows), rows
    assert [reasons.fault(r["reason"]) for r in rows] == [None] * len(rows)


def test_of_all_inputs(of_inputs):
    """Each is a known sentence; its text is that of the place, on one line."""
    assert len(of_inputs) > 300
    for path, refused in of_inputs:
        assert reasons.fault(refused["reason"]) is None, (path, refused)
        found = refused["found"].removesuffix("...")
        text = path.read_bytes().decode(errors="replace").split("\n", refused["line"] - 1)[-1]
        here = re.sub(r"[\s\\]+", " ", text[refused["column"] - 1 :])
        assert here.startswith(found) and len(found) <= 60, (path, refused)


def test_every_kind_is_reached(of_inputs):
    met = {kind for _, refused in of_inputs for kind in reasons.kinds(refused["reason"])}
    known = {kind for kind in reasons.TABLE if kind.startswith(NOT_REACHED)}
    known |= {k for k in reasons.TABLE if any(k.startswith(case[1]) for case in BODIES.values())}
    assert set(reasons.TABLE) <= met | known


@pytest.mark.parametrize(
    "bad",
    ["needs `mean` here, has `sum`", "this must be unknown", "this must be a literal, or so", "F"],
)
def test_a_vague_reason_is_a_fault(bad):
    assert reasons.fault(bad)
