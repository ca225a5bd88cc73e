"""docs/ERRORS.md lists every message that the tests here provoke, under its exit status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_tool import EXAMPLE, environment, lines, run
from test_bad_input import REFUSED, RULE_FAULTS
from test_output import USAGE

DOC = Path(__file__).parents[2] / "docs" / "ERRORS.md"
MORE_USAGE = [
    ["x", "-o"],
    ["x", "--json=1"],
    ["x", "-o", "a", "-o", "b"],
    ["x", "--only", "a,"],
    ["x", "-o", "-", "--json"],
    ["x", "y", "-o", "z"],
    ["x", "-d", "-w"],
    ["why", "x", "-w"],
    ["rules", "a", "b"],
    ["verify", "--symbolic"],
    ["verify", "--symbolic", "x", "--against", "y", "--against", "z"],
    ["verify", "--symbolic", "x", "y", "--against", "z"],
    ["verify", "--symbolic", "x", "-w"],
    ["why", "x", "--symbolic"],
    ["why", "modeling_x.py:999"],
    ["--transformers", "none", "x"],
    ["-o", ".", "."],
    ["-o", "modeling_x.py", "."],
    ["-o", "none/x.py", "modeling_x.py"],
    ["-o", "dangling", "modeling_x.py"],
    ["-o", "/dev/full", "modeling_x.py"],
    ["modeling_x.py", "--config", "x"],
    ["warmup", "modeling_x.py", "--config", "modeling_x.py"],
    ["warmup", "modeling_x.py", "--config", "c", "--arch", "host,"],
    ["cache", "why", "no-such-entry"],
    ["cache", "pack", "out"],
    ["cache", "pack", "out", "--arch", "sm_90a"],
    ["cache", "unpack", "none"],
    ["cache", "unpack", "modeling_x.py"],
]


def patterns() -> dict[int, list[re.Pattern]]:
    found: dict[int, list[re.Pattern]] = {2: [], 3: []}
    status = None
    for line in DOC.read_text().splitlines():
        if line.startswith("## "):
            status = int(match[1]) if (match := re.match("## Exit status ([23])", line)) else None
        elif status and (cell := re.match(r"\| `(.*?)` \|", line)):
            parts = [re.escape(part) for part in cell[1].split("...")]
            found[status].append(re.compile(".*".join(parts)))
    assert len(found[2]) > 25 and len(found[3]) > 20
    return found


PATTERNS = patterns()


def check(status: int, line: str, also: int | None = None) -> None:
    text = re.split(": (?:error|refused): ", line, maxsplit=1)[1]
    known = PATTERNS[status] + (PATTERNS[also] if also else [])
    assert any(pattern.fullmatch(text) for pattern in known), text


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    done = run("-", stdin=REFUSED[name][0])
    (line,) = lines(done.stderr)
    check(done.returncode, line)


@pytest.mark.parametrize("arguments", [*(u[0] for u in USAGE), *MORE_USAGE], ids=" ".join)
def test_usage(arguments, tmp_path):
    (tmp_path / "modeling_x.py").write_bytes(EXAMPLE)
    (tmp_path / "dangling").symlink_to("nowhere")
    env = environment(TFR_CACHE_DIR=str(tmp_path / "cache"), TFR_CACHE_RO=None)
    done = run(*arguments, cwd=tmp_path, env=env)
    (line,) = lines(done.stderr)
    assert done.returncode == 2
    check(2, line)


@pytest.mark.parametrize("name", RULE_FAULTS)
def test_rule_files(name, tmp_path):
    (tmp_path / "bad.py").write_bytes(RULE_FAULTS[name])
    done = run("--rules", tmp_path, "-", stdin=EXAMPLE)
    (line,) = lines(done.stderr)
    assert done.returncode == 2
    check(2, line, also=3)
