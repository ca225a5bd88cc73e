"""`python -m tfrewrite run`: a script, unchanged, with the hook on."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def run(package, standin, tmp_path):
    def go(*words, **environment):
        (tmp_path / "script.py").write_text(SCRIPT)
        (tmp_path / "neighbour.py").write_text("")
        env = {**os.environ, **environment}
        env["PYTHONPATH"] = f"{package.parents[2]}{os.pathsep}{env['PYTHONPATH']}"
        command = [sys.executable, "-m", "tfrewrite", *map(str, words)]
        return subprocess.run(command, env=env, capture_output=True, text=True, cwd=tmp_path)

    return go


SCRIPT = """
import pickle, sys
import transformers.models.demo.modeling_demo as m
import neighbour


class Mine:
    pass


if __name__ == "__main__":
    assert sys.modules["__main__"].Mine is Mine and type(pickle.loads(pickle.dumps(Mine()))) is Mine
    kind = "fused" if "tfr" in vars(m) else "original"
    print(kind, sys.argv, __file__, neighbour.__name__, __doc__)
    sys.exit(7)
"""


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "neighbour.py").write_text("")
    (folder / "script.py").write_text(SCRIPT)
    return folder / "script.py"


def test_script(run, script):
    done = run("run", script, "--only", "x", "-m")
    assert done.returncode == 7, done.stderr
    assert done.stdout == f"fused {[str(script), '--only', 'x', '-m']} {script} neighbour None\n"
    assert done.stderr == ""


def test_module_and_options(run, tmp_path):
    done = run("run", "--dry-run", "--report", "--only", "demo_mul", "-m", "script", "a")
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith(f"original {[str(tmp_path / 'script.py'), 'a']}")
    assert "tfrewrite: transformers.models.demo.modeling_demo: dry run demo_mul" in done.stderr


def test_nothing_rewritten_is_said(run, tmp_path):
    (tmp_path / "empty.py").write_text("print('done')\n")
    done = run("run", "empty.py")
    assert done.returncode == 0 and done.stdout == "done\n"
    assert done.stderr == "tfrewrite: NOTHING was rewritten: no modeling module was imported\n"


def test_exception_of_the_script(run, tmp_path):
    (tmp_path / "raises.py").write_text("1 / 0\n")
    done = run("run", "raises.py")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


def test_missing_script(run):
    done = run("run", "missing.py")
    assert done.returncode == 2 and done.stderr.startswith("tfrewrite: missing.py: No such file")


def test_usage(run):
    assert run().returncode == 2
    assert run("run").returncode == 2
    assert "verify FILE" in run("--help").stdout


def test_anything_else_is_the_programs(run, package):
    done = run("--json", "-o", "out.py", package / "modeling_demo.py")
    assert done.returncode == 0 and '"demo_mul"' in done.stdout
    done = run("rules", TFR_BIN="/nowhere")
    assert done.returncode == 2 and "TFR_BIN=/nowhere" in done.stderr
