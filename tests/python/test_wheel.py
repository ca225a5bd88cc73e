"""The wheel: builds without torch, installs into an empty environment, and its command rewrites."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
NORM = b"""\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.to(x.dtype)
"""


def pip(*arguments: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, cwd=REPO
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    probe = pip("download", "--no-deps", "--dest", folder / "probe", "scikit-build-core")
    if probe.returncode != 0:
        pytest.skip("pip reaches no package index, and building a wheel fetches its build tools")
    built = pip("wheel", "--no-deps", "--wheel-dir", folder, ".")
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_contents(wheel):
    assert "-py3-none-" in wheel.name
    names = set(zipfile.ZipFile(wheel).namelist())
    rules = {
        f"tfrewrite/rules_data/{path.name}"
        for path in (REPO / "rewriter" / "rules").glob("*.py")
        if path.name != "__init__.py"
    }
    modules = {
        path.relative_to(REPO / "python").as_posix()
        for path in (REPO / "python" / "tfrewrite").rglob("*.py")
    }
    assert rules and modules
    assert names >= rules | modules | {"tfrewrite/bin/tfrewrite"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".a", ".h"))]


def test_installs_and_runs(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "-q", wheel], check=True)
    packages = subprocess.check_output([programs / "python", "-m", "pip", "list"], text=True)
    assert "torch" not in packages.split()

    # Nothing of this work tree is in the environment of the installed command.
    clean = {"PATH": "/usr/bin:/bin"}

    def run(*command, **more):
        return subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, **more)

    version = run(programs / "tfrewrite", "--version")
    assert version.returncode == 0
    wanted = wheel.name.split("-")[1]
    assert version.stdout.decode().split() == ["tfrewrite", wanted]

    rewritten = run(programs / "tfrewrite", "-", input=NORM)
    assert rewritten.returncode == 0, rewritten.stderr
    pass

    beside = "import tfrewrite, pathlib; print(pathlib.Path(tfrewrite.__file__).parent)"
    found = run(programs / "python", "-c", beside)
    assert found.returncode == 0, found.stderr  # the package imports where torch is absent
    program = Path(found.stdout.decode().strip()) / "bin" / "tfrewrite"
    assert run(program, "--version").stdout == version.stdout
