"""The command verify --symbolic."""

from __future__ import annotations

import json

import pytest
from cli_tool import EXAMPLE, PLAIN, environment, lines, run


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "modeling_example.py"
    path.write_bytes(EXAMPLE)
    return path


@pytest.fixture
def rewritten(example, tmp_path):
    path = tmp_path / "rewritten.py"
    path.write_bytes(run("-q", example).stdout)
    return path


def symbolic(*args):
    return run("verify", "--symbolic", *args, env=environment(TFR_PYTHON="/none", PATH="/none"))


def test_equal(example):
    done = symbolic(example)
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines(done.stdout) == [
        f"{example}:13:5: ExampleMLP.forward: equal",
        "equal: 4 functions of 1 file compared, 1 of them rewritten",
    ]
    assert example.read_bytes() == EXAMPLE


def test_against(example, rewritten):
    done = symbolic(rewritten, "--against", example)
    assert (done.returncode, done.stderr) == (0, b"")
    assert symbolic("--against=" + str(example), rewritten).stdout == done.stdout


def test_different(example, rewritten):
    text = rewritten.read_bytes()
    rewritten.write_bytes(
        text.replace(b"act_mul(self.act_fn, gate, up)", b"act_mul(self.act_fn, up, gate)")
    )
    assert rewritten.read_bytes() != text
    done = symbolic(rewritten, "--against", example)
    assert (done.returncode, done.stderr) == (1, b"")
    difference, total = lines(done.stdout)
    assert difference.startswith(f"{example}:14:")
    assert f": ExampleMLP.forward: DIFFERENT at {rewritten}:15:" in difference
    assert total == "DIFFERENT: 4 functions of 1 file compared, 1 of them rewritten, 1 different"
    assert lines(symbolic("-q", rewritten, "--against", example).stdout) == [difference]


def test_different_outside_of_functions(example, rewritten):
    rewritten.write_bytes(rewritten.read_bytes().replace(b"bias=False", b"bias=True", 1))
    # `__init__` is compared token by token.
    done = symbolic(rewritten, "--against", example)
    assert done.returncode == 1
    assert lines(done.stdout)[0].startswith(f"{example}:8:87: outside of functions: DIFFERENT at ")
    assert lines(done.stdout)[0].endswith(": `False` became `True`")


@pytest.mark.parametrize(
    "import_line",
    [
        b"from tfrewrite import ops as nn",  # the original has that name
        b"from tfrewrite import ops as tfr, hook",
        b"from tfrewrite import hook as tfr",
        b"from .tfrewrite import ops as tfr",
    ],
)
def test_only_our_import_may_be_new(example, rewritten, import_line):
    text = rewritten.read_bytes()
    rewritten.write_bytes(text.replace(b"from tfrewrite import ops as tfr", import_line))
    assert symbolic(rewritten, "--against", example).returncode == 1


def test_import_before_the_docstring(tmp_path):
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_bytes(b'"""text"""\nx = 1\n')
    after.write_bytes(b'"""text"""\nfrom tfrewrite import ops\nx = 1\n')
    assert symbolic(after, "--against", before).returncode == 0
    after.write_bytes(b'from tfrewrite import ops\n"""text"""\nx = 1\n')
    assert symbolic(after, "--against", before).returncode == 1


def test_json(example, rewritten):
    document = json.loads(symbolic("--json", example).stdout)
    assert document["version"] == 1
    (file,) = document["files"]
    assert (file["path"], file["equal"]) == (str(example), True)
    assert [(f["class"], f["function"], f["changed"]) for f in file["functions"]] == [
        ("", "", False),
        ("ExampleMLP", "__init__", False),
        ("ExampleMLP", "forward", True),
        ("ExampleAttention", "__init__", False),
        ("ExampleAttention", "forward", False),
    ]
    rewritten.write_bytes(rewritten.read_bytes().replace(b"x.mul_(2)", b"pass"))
    done = symbolic("--json", rewritten, "--against", example)
    assert done.returncode == 1
    (file,) = json.loads(done.stdout)["files"]
    (found,) = [f for f in file["functions"] if not f["equal"]]
    assert (file["equal"], found["class"], found["line"]) == (False, "ExampleAttention", 25)
    assert found["difference"]


def test_folder_and_what_cannot_be_compared(example, tmp_path):
    (tmp_path / "modeling_plain.py").write_bytes(PLAIN)
    (tmp_path / "modeling_torn.py").write_bytes(b"def f(:\n")
    done = symbolic("--json", tmp_path)
    assert done.returncode == 3
    files = json.loads(done.stdout)["files"]
    assert [f["equal"] for f in files] == [True, True, False]
    assert files[2]["error"] and "refused" in done.stderr.decode()
    done = symbolic(tmp_path)
    assert lines(done.stdout) == ["equal: 4 functions of 2 files compared, 1 of them rewritten"]


def test_python_hands_it_on(example):
    import os
    import subprocess
    import sys

    package = os.path.join(os.path.dirname(__file__), "..", "..", "python")
    done = subprocess.run(
        [sys.executable, "-m", "tfrewrite", "verify", "--symbolic", example],
        capture_output=True,
        env=environment(PYTHONPATH=package),
    )
    assert done.stdout == symbolic(example).stdout and done.returncode == 0
