"""The commands why, rules and verify."""

from __future__ import annotations

import json
import os

import pytest
from cli_tool import BIN, EXAMPLE, PLAIN, environment, lines, run


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "modeling_example.py"
    path.write_bytes(EXAMPLE)
    return path


@pytest.fixture
def refused(example):
    (file,) = json.loads(run("--json", example).stdout)["files"]
    (entry,) = [e for e in file["refused"] if e["class"] == "ExampleAttention"]
    return entry


def test_why_names_rule_and_place(example, refused):
    done = run("why", example)
    assert (done.returncode, done.stderr) == (0, b"")
    text = lines(done.stdout)
    head = text.index(
        f"{example}:{refused['block_line']}-{refused['block_end_line']}: ExampleAttention: "
        f"not fused; nearest rule {refused['rule']}"
    )
    assert text[head + 1] == (
        f"  {example}:{refused['line']}:{refused['column']}: {refused['reason']}: `x.mul_(2)`"
    )
    assert any(": fused as act_mul" in line for line in text)


def test_why_of_a_line(example, refused):
    everything = run("why", example).stdout
    for line in range(refused["block_line"], refused["block_end_line"] + 1):
        done = run("why", f"{example}:{line}")
        assert done.returncode == 0
        assert "ExampleAttention" in done.stdout.decode()
        assert "ExampleMLP" not in done.stdout.decode()
        assert set(lines(done.stdout)) < set(lines(everything))
    done = run("why", f"{example}:1")
    assert (done.returncode, done.stdout) == (
        0,
        f"{example}:1: no candidate block contains this line\n".encode(),
    )


def test_why_of_a_folder_ranks_reasons(tmp_path, example, refused):
    other = tmp_path / "below" / "modeling_other.py"
    other.parent.mkdir()
    other.write_bytes(EXAMPLE)
    (tmp_path / "modeling_plain.py").write_bytes(PLAIN)
    done = run("why", "--json", tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert (document["version"], document["untold"]) == (1, 0)
    rows = document["reasons"]
    (row,) = [r for r in rows if (r["op"], r["reason"]) == (refused["op"], refused["reason"])]
    assert (row["count"], row["files"], row["path"]) == (2, 2, str(other))
    assert (row["line"], row["column"]) == (refused["line"], refused["column"])
    text = lines(run("why", tmp_path).stdout)
    assert (
        f"    2  {row['op']}: {row['reason']} (2 places in 2 files, first "
        f"{other}:{row['line']}:{row['column']}: `x.mul_(2)`)"
    ) in text
    (alone,) = json.loads(run("why", "--json", example).stdout)["reasons"]
    assert (alone["count"], alone["path"]) == (1, str(example))
    counts = [r["count"] for r in json.loads(run("why", "--json", tmp_path).stdout)["reasons"]]
    assert counts == sorted(counts, reverse=True)


def test_why_of_a_folder_without_candidates(tmp_path):
    (tmp_path / "modeling_plain.py").write_bytes(PLAIN)
    done = run("why", tmp_path)
    assert (done.returncode, done.stdout) == (
        0,
        b"no block of 1 file came near a rule without being fused\n",
    )
    (tmp_path / "modeling_broken.py").write_bytes(b"def f(:\n")
    done = run("why", tmp_path)
    assert done.returncode == 3 and b"modeling_broken.py" in done.stderr


def test_why_of_a_line_that_is_not_there(example):
    count = EXAMPLE.count(b"\n")
    assert run("why", f"{example}:{count}").returncode == 0
    for line in (0, count + 1, 4_000_000_000):
        done = run("why", f"{example}:{line}")
        (message,) = lines(done.stderr)
        assert (done.returncode, done.stdout) == (2, b"")
        assert message.endswith(f"there is no line {line}: the file has {count} lines")


def test_a_file_whose_name_ends_in_a_number(tmp_path):
    (tmp_path / "x.py:3").write_bytes(PLAIN)
    done = run("why", "x.py:3", cwd=tmp_path)
    assert done.returncode == 0
    assert lines(done.stdout) == ["x.py:3: no block resembles what a rule describes"]
    done = run("why", "x.py:3:1", cwd=tmp_path)
    assert lines(done.stdout) == ["x.py:3:1: no candidate block contains this line"]
    done = run("why", "x.py:4", cwd=tmp_path)
    assert done.returncode == 2
    assert lines(done.stderr) == ["x.py: error: cannot read it: No such file or directory"]


def test_why_obeys_only(example):
    text = run("why", "--only", "rms_norm", example).stdout.decode()
    assert "act_mul" not in text and "linears" not in text


def test_rules_lists_ops_and_shows_one():
    done = run("rules")
    assert (done.returncode, done.stderr) == (0, b"")
    for op in ("rms_norm", "linears", "act_mul"):
        assert any(op in line for line in lines(done.stdout))
    done = run("rules", "rms_norm")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"rms_norm(" in done.stdout


def test_rules_knows_no_other_op():
    done = run("rules", "nonsense")
    (line,) = lines(done.stderr)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "nonsense" in line and "act_mul" in line


FAKE = """#!/bin/sh
if [ "$1" = -c ]; then exit {package}; fi
echo "$TFR_BIN"
for word in "$@"; do echo "[$word]"; done
exit {status}
"""


def fake_python(folder, package=0, status=0):
    path = folder / "python"
    path.write_text(FAKE.format(package=package, status=status))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_verify_runs_python(status, tmp_path):
    env = environment(TFR_PYTHON=fake_python(tmp_path, status=status), TFR_BIN=None)
    done = run("--only", "rope", "verify", "x y.py", "--config", "c.json", "--unknown", env=env)
    assert done.returncode == status
    program, *words = lines(done.stdout)
    assert os.path.samefile(program, BIN)
    want = ["-m", "tfrewrite", "verify", "--only", "rope", "x y.py", "--config", "c.json"]
    assert words == [f"[{word}]" for word in [*want, "--unknown"]]


def test_verify_leaves_a_chosen_program(tmp_path):
    env = environment(TFR_PYTHON=fake_python(tmp_path), TFR_BIN="/chosen")
    assert lines(run("verify", env=env).stdout)[0] == "/chosen"


def test_verify_without_package_or_python(tmp_path):
    env = environment(TFR_PYTHON=fake_python(tmp_path, package=1))
    done = run("verify", "x.py", env=env)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "needs the package tfrewrite" in done.stderr.decode()
    done = run("verify", "x.py", env=environment(TFR_PYTHON=str(tmp_path / "none")))
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = lines(done.stderr)
    assert "cannot run Python" in line and "TFR_PYTHON" in line
