"""What an op runs where no kernel can be used: the aten calls of its rule, without Python.

aten_child.py makes the checks, in processes of their own; here are their names, and the table of
aten ops against torch's schemas.
"""

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


def run_child(*checks):
    environment = os.environ | {"TFR_LIB": kernels.find(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / "aten_child.py"), *checks],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    assert done.returncode == 0, (done.stdout[-500:] + done.stderr)[-4000:]


@pytest.mark.kernels
@pytest.mark.parametrize("op", OPS_BY_CHECK)
def test_programs_give_the_bits_and_strides_of_the_references(op):
    run_child(op)


@pytest.mark.kernels
@pytest.mark.parametrize("check", ["names", "errors", "leaks", "exported", "user_rule"])
def test_calls(check):
    run_child(check)


@pytest.mark.kernels
@pytest.mark.slow
def test_compiled_graphs():
    run_child("compiled")


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
