"""What goes to standard output and what to standard error, and the exit status."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess

import pytest
from cli_tool import BIN, EXAMPLE, PLAIN, environment, lines, read_terminal, run, state


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "modeling_example.py"
    path.write_bytes(EXAMPLE)
    return path


@pytest.fixture
def rewritten(example):
    return run(example).stdout


def test_source_and_report(example):
    before = state(example)
    done = run(example)
    assert done.returncode == 0
    assert b"from tfrewrite import ops as tfr\n" in done.stdout
    assert b"tfr.act_mul(" in done.stdout
    report = lines(done.stderr)
    assert report[0].startswith(f"{example}: ")
    assert "fused" in report[0]
    assert any(line.split()[0] == "ExampleMLP" for line in report)
    assert any(" act_mul " in line and " line" in line for line in report)
    assert any("ExampleAttention linears: " in line for line in report)
    assert len(report) <= 24
    assert state(example) == before


def test_standard_input_is_the_same(example, rewritten):
    done = run("-", stdin=EXAMPLE)
    assert (done.returncode, done.stdout) == (0, rewritten)
    assert lines(done.stderr)[0].startswith("<stdin>: ")


def test_standard_input_from_a_pipe_that_is_slow(rewritten):
    slow = subprocess.Popen([BIN, "-q", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    half = len(EXAMPLE) // 2
    slow.stdin.write(EXAMPLE[:half])
    slow.stdin.flush()
    out, _ = slow.communicate(EXAMPLE[half:], timeout=60)
    assert (slow.returncode, out) == (0, rewritten)


@pytest.mark.parametrize("command", [(), ("why",)])
def test_an_import_of_everything_is_named(tmp_path, command):
    """After `from x import *` torch may be anything; one before the imports changes nothing."""
    path, everything = tmp_path / "modeling_star.py", b"from os.path import *\n"
    for text, line in (
        (EXAMPLE.replace(b"\nclass", b"\n" + everything + b"class", 1), True),
        (everything + EXAMPLE, False),
    ):
        path.write_bytes(text)
        done = run(*command, path)
        said = f"after the import * of line {text[: text.find(everything)].count(10) + 1} no name"
        assert (said in (done.stdout + done.stderr).decode()) == line


def test_nothing_to_do_is_loud_and_done(tmp_path):
    path = tmp_path / "modeling_plain.py"
    path.write_bytes(PLAIN)
    done = run(path)
    assert (done.returncode, done.stdout) == (0, PLAIN)
    (line,) = lines(done.stderr)
    assert line.startswith(f"NOTHING WAS FUSED in {path}")


def test_second_run_says_why_nothing_is_left(example, rewritten):
    done = run("-", stdin=rewritten)
    assert (done.returncode, done.stdout) == (0, rewritten)
    first = lines(done.stderr)[0]
    assert first.startswith("NOTHING WAS FUSED") and "has been rewritten before" in first


def test_quiet(example, rewritten):
    done = run("-q", example)
    assert (done.returncode, done.stdout, done.stderr) == (0, rewritten, b"")


@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "-s"]], ids=["git", "patch"])
def test_diff_applies(tool, example, rewritten):
    if not shutil.which(tool[0]):
        pytest.skip(f"no {tool[0]} here")
    done = run("-d", example.name, cwd=example.parent)
    assert done.returncode == 0
    assert done.stdout.startswith(b"--- a/modeling_example.py\n+++ b/modeling_example.py\n@@ -")
    assert b"\033" not in done.stdout
    assert state(example)[0] == EXAMPLE
    subprocess.run(tool, input=done.stdout, cwd=example.parent, check=True, timeout=60)
    assert example.read_bytes() == rewritten


def test_diff_of_crlf_and_no_final_line_end(tmp_path):
    path = tmp_path / "modeling_example.py"
    path.write_bytes(EXAMPLE.replace(b"\n", b"\r\n")[:-2])
    done = run("-d", path.name, cwd=tmp_path)
    body = done.stdout.splitlines(keepends=True)[2:]
    for line, after in zip(body, [*body[1:], b""]):
        if line[:1] in (b"+", b"-", b" "):
            assert line.endswith(b"\r\n") or after.startswith(b"\\ No newline"), line
    if shutil.which("git"):
        want = run("-q", path).stdout
        subprocess.run(["git", "apply"], input=done.stdout, cwd=tmp_path, check=True, timeout=60)
        assert path.read_bytes() == want


def test_diff_of_nothing_is_empty(tmp_path):
    path = tmp_path / "modeling_plain.py"
    path.write_bytes(PLAIN)
    done = run("-d", path)
    assert (done.returncode, done.stdout) == (0, b"")


def test_check(example, tmp_path):
    plain = tmp_path / "modeling_plain.py"
    plain.write_bytes(PLAIN)
    before = state(example)
    done = run("--check", example)
    assert (done.returncode, done.stdout) == (1, b"")
    assert lines(done.stderr)[-1] == "1 of 1 file would change"
    done = run("--check", plain)
    assert (done.returncode, done.stdout) == (0, b"")
    assert run("--check", "-q", plain, example).returncode == 1
    assert state(example) == before


def test_check_with_diff_and_json(example):
    done = run("--check", "-d", "-q", example)
    assert done.returncode == 1
    assert done.stdout == run("-d", "-q", example).stdout
    done = run("--check", "--json", example)
    assert done.returncode == 1
    assert json.loads(done.stdout)["files"][0]["changed"] is True


def is_count(value) -> bool:
    return type(value) is int and value >= 1


def check_entry(entry: dict, strings: list[str], counts: list[str]) -> None:
    assert all(type(entry[name]) is str for name in strings), entry
    assert all(is_count(entry[name]) for name in counts), entry
    assert set(entry) == {*strings, *counts}


def test_json_schema(example):
    done = run("--json", example)
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert set(document) == {"version", "files"} and document["version"] == 1
    (file,) = document["files"]
    assert set(file) == {"path", "changed", "fused", "refused", "reads"}
    assert file["path"] == str(example) and file["changed"] is True
    place = ["op", "class", "function"]
    for entry in file["fused"]:
        check_entry(entry, place, ["line", "end_line", "count"])
    for entry in file["refused"]:
        counts = ["line", "column", "block_line", "block_end_line"]
        check_entry(entry, [*place, "reason", "found", "rule"], counts)
    assert {"op": "act_mul", "class": "ExampleMLP", "function": "forward"}.items() <= next(
        entry for entry in file["fused"] if entry["op"] == "act_mul"
    ).items()
    (refused,) = [e for e in file["refused"] if e["class"] == "ExampleAttention"]
    assert (refused["op"], refused["function"]) == ("linears", "forward")
    assert refused["reason"] and 24 <= refused["line"] <= 26
    assert refused["found"] == "x.mul_(2)"


def test_json_goes_with_output(example, rewritten, tmp_path):
    out = tmp_path / "out.py"
    done = run("--json", "-o", out, example)
    assert (done.returncode, out.read_bytes()) == (0, rewritten)
    assert json.loads(done.stdout)["files"][0]["changed"] is True
    done = run("--json", "-w", example)
    assert (done.returncode, example.read_bytes()) == (0, rewritten)
    assert json.loads(done.stdout)["files"][0]["changed"] is True
    done = run("--json", "-", stdin=EXAMPLE)
    assert json.loads(done.stdout)["files"][0]["path"] == "<stdin>"


def test_json_holds_refusals_and_missing_files(tmp_path):
    bad = tmp_path / "modeling_bad.py"
    bad.write_bytes(b"x = (\n")
    done = run("--json", bad, tmp_path / "none.py")
    assert done.returncode == 3
    first, second = json.loads(done.stdout)["files"]
    assert first["error"]["kind"] == "refused" and first["error"]["line"] == 1
    assert second["error"]["kind"] == "io" and second["error"]["message"]
    for file in (first, second):
        assert file["changed"] is False and file["fused"] == file["refused"] == []
    assert len(lines(done.stderr)) == 2


def test_json_with_a_path_that_is_no_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/modeling_\xff\n.py"
    with open(path, "wb") as f:
        f.write(PLAIN)
    done = run("--json", path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["files"][0]["path"].endswith("modeling_\ufffd\n.py")


def test_only_and_skip(example):
    def ops(*args):
        (file,) = json.loads(run("--json", *args, example).stdout)["files"]
        return {entry["op"] for entry in file["fused"]}

    everything = ops()
    assert "act_mul" in everything
    assert ops("--only", "act_mul") == {"act_mul"}
    assert ops("--only=rms_norm") == set()
    assert ops("--skip", "act_mul") == everything - {"act_mul"}
    assert ops("--only", "rms_norm,act_mul", "--skip", "act_mul") == set()


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_unknown_op(option, example):
    done = run(option, "act_mull", example)
    (line,) = lines(done.stderr)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "act_mull" in line and "did you mean act_mul?" in line and "rms_norm" in line


USAGE = [
    ([], ["no file given"]),
    (["--jsn", "x"], ["--jsn", "did you mean --json?"]),
    (["x", "--target", "gpu"], ["auto, host or cuda"]),
    (["plan", "x"], ["plan", "not available in this version"]),
    (["warmup", "x"], ["warmup needs --config"]),
    (["warmup", "x", "--config", "none.json"], ["none.json: error: cannot read it"]),
    (["warmup", "x", "--config", "c", "--arch", "gpu"], ["--arch takes host, sm_75", "sm_90a"]),
    (["warmup", "x", "--config", "c", "--dtype", "f64"], ["bf16, f16 and f32"]),
    (["warmup", "x", "--config", "c", "--dtype", "f16"], ["CUDA architectures alone"]),
    (["warmup", "x", "--config", "c", "-j", "none"], ["a number from 1"]),
    (["cache"], ["ls, verify, why KEY, gc, path"]),
    (["cache", "pack"], ["takes one argument"]),
    (["cache", "unpack", "x", "--arch", "host"], ["--arch", "cache unpack"]),
    (["cache", "why"], ["takes one argument"]),
    (["cache", "ls", "x"], ["takes no argument"]),
    (["cache", "gc", "--json"], ["--json", "cache gc"]),
    (["cache", "gc", "--max-size", "big"], ["500M or 2G"]),
    (["cache", "gc", "--max-age", "3"], ["12h, 30d"]),
    (["-w", "-"], ["-w", "standard input"]),
    (["-w", "-o", "y", "x"], ["exclude each other"]),
    (["none/modeling_x.py"], ["none/modeling_x.py: error", "No such file"]),
    (["--rules", "none", "x"], ["none: error", "--rules needs a folder"]),
    (["why"], ["FILE:LINE"]),
    (["rules", "rms_nrm"], ["did you mean rms_norm?"]),
    ([""], ["No such file"]),
]


@pytest.mark.parametrize("arguments, words", USAGE)
def test_usage_errors(arguments, words, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    (line,) = lines(done.stderr)
    assert (done.returncode, done.stdout) == (2, b"")
    for word in words:
        assert word in line
    assert os.listdir(tmp_path) == []


def test_help_and_version():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(lines(done.stdout)) <= 33 and max(map(len, lines(done.stdout))) <= 100
    assert run("-h").stdout == done.stdout
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"tfrewrite ") and len(lines(done.stdout)) == 1


def on_terminal(*args, **changes) -> bytes:
    """What the program prints when both outputs are a terminal."""
    mine, its = pty.openpty()
    with open(os.devnull, "rb") as nothing:
        child = subprocess.Popen(
            [BIN, *map(os.fspath, args)],
            stdin=nothing,
            stdout=its,
            stderr=its,
            env=environment(**changes),
        )
    os.close(its)
    text = read_terminal(mine)
    assert child.wait(60) == 0
    return text


def test_colors_on_a_terminal_only(example):
    colored = on_terminal("-d", example, TERM="xterm")
    assert b"\033[32m+" in colored and b"\033[31m-" in colored and b"\033[1m" in colored
    for changes in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}):
        assert b"\033" not in on_terminal("-d", example, **changes)
    assert b"\033" in on_terminal("-d", example, NO_COLOR="", TERM="xterm")


def test_a_name_cannot_write_to_the_terminal(tmp_path):
    path = tmp_path / "modeling_\033[2J.py"
    path.write_bytes(PLAIN)
    assert b"\033[2J" not in run(path).stderr
    assert b"\033[2J" not in run(tmp_path / "none\033[2J.py").stderr
