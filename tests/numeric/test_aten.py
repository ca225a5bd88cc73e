"""What an op runs where no kernel can be used: the aten calls of its rule, without Python.

aten_child.py makes the checks, in processes of their own; here are their names, and the table of
aten ops against torch's schemas.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from aten_child import OPS_BY_CHECK
from tfrewrite import kernels

HERE = Path(__file__).resolve().parent
ROWS = re.findall(
    r'ATEN\((\w+), "([^"]+)",\s*((?:"[^"]*"\s*)+)\)',
    (HERE.parents[1] / "rewriter" / "aten.def").read_text(),
)


@pytest.fixture(scope="module")
def results(request):
    """The selected checks, by one process that imports torch once."""
    items = (getattr(item, "callspec", None) for item in request.session.items)
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "aten_child.py"),
            *(i.params["check"] for i in items if i and "check" in i.params),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ | {"TFR_LIB": kernels.find(), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


CALLS = ("names", "errors", "leaks", "exported", "user_rule")
SLOW = pytest.param("compiled", marks=pytest.mark.slow)


@pytest.mark.kernels
@pytest.mark.parametrize("check", [*OPS_BY_CHECK, *CALLS, SLOW])
def test_check(results, check):
    """Of an op: its program gives the bits and strides of its references."""
    status, output = results[check]
    assert status == 0, output[-4000:]


def schema(text):
    parts = "".join(re.findall(r'"([^"]*)"', text))
    return parts, *parts.partition("(")[0].partition(".")[::2]


def with_short_numbers(text):
    """torch writes 1e-05 with seventeen digits."""
    return re.sub(r"(?<==)\d[\d.e+-]*", lambda m: repr(float(m[0])), text)


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_schemas_are_those_of_torch(row):
    text, name, overload = schema(row[2])
    theirs = getattr(getattr(torch.ops.aten, name), overload or "default")._schema
    theirs = str(theirs).replace('"', "'")
    assert with_short_numbers(theirs) == with_short_numbers(f"aten::{text}")


def test_what_the_dispatcher_shim_cannot_carry_goes_another_way():
    """Scalars: only ADD, SUB and POW know how to do without."""
    for how, _, text in ROWS:
        assert ("Scalar " in text) == (how != "CALL"), text
