"""What a file imports from: which files are read for it, what is known from them, what is not."""

from __future__ import annotations

import json
import os

import pytest
from cli_tool import lines, run, state

LAYERS = b"""\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


def double(x):
    return x * 2


class Projections(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q_proj = nn.Linear(size, size)
        self.k_proj = nn.Linear(size, size)

    def doubled(self, x):
        return x * 2
"""
HEAD = b"import torch\nfrom torch import nn\n%s\n\n"
# Two projections around what is imported: they are one call when it is known to have no effects.
AROUND = b"""\
class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q_proj = nn.Linear(size, size)
        self.k_proj = nn.Linear(size, size)
        self.norm = %s

    def forward(self, x):
        q = %s
        return q, self.k_proj(x)
"""
DERIVED = b"""\
class Attention(Projections):
    def forward(self, x):
        q = self.doubled(self.q_proj(x))
        return q, self.k_proj(x)
"""
MODULE = AROUND % (b"Norm(size)", b"self.norm(self.q_proj(x))")
FUNCTION = AROUND % (b"nn.Identity()", b"double(self.q_proj(x))")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "layers.py").write_bytes(LAYERS)
    return tmp_path


def entry(path, *args):
    done = run("--json", *args, path)
    assert done.returncode == 0, done.stderr
    (file,) = json.loads(done.stdout)["files"]
    return file


def rewritten(folder, imports, body, *args, name="modeling_x.py"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(HEAD % imports + body)
    return entry(path, *args)


def fused(file):
    return [e["op"] for e in file["fused"]]


@pytest.mark.parametrize(
    "imports, body",
    [
        (b"from .layers import Norm", MODULE),
        (b"from .layers import Norm as N", MODULE.replace(b"Norm(", b"N(")),
        (b"from . import layers", MODULE.replace(b"Norm(", b"layers.Norm(")),
        (b"from .layers import double", FUNCTION),
        (b"from .layers import double as d", FUNCTION.replace(b"double(", b"d(")),
        (b"from . import layers", FUNCTION.replace(b"double(", b"layers.double(")),
        (b"from .layers import Projections", DERIVED),
        (b"from . import layers", DERIVED.replace(b"(Proj", b"(layers.Proj")),
    ],
)
def test_sibling(folder, imports, body):
    before = state(folder / "layers.py")
    file = rewritten(folder, imports, body)
    assert fused(file) == ["linears"]
    assert file["reads"] == [{"path": str(folder / "layers.py"), "fault": ""}]
    assert state(folder / "layers.py") == before


def test_alone(folder):
    """The same without the file, from standard input, and where Python would find another one."""
    file = rewritten(folder, b"from .other import Norm", MODULE)
    assert (fused(file), file["reads"]) == (
        [],
        [{"path": str(folder / "other.py"), "fault": "there is no such file"}],
    )
    assert "not read: " in run(folder / "modeling_x.py").stderr.decode()
    source = HEAD % b"from .layers import Norm" + MODULE
    (file,) = json.loads(run("--json", "-", stdin=source, cwd=folder).stdout)["files"]
    assert (fused(file), file["reads"]) == ([], [])
    for imports in (b"from layers import Norm", b"from pack.layers import Norm"):
        file = rewritten(folder, imports, MODULE)
        assert (fused(file), file["reads"]) == ([], [])


def test_only_what_is_looked_up_is_read(folder):
    file = rewritten(folder, b"from .layers import Norm, double", DERIVED.replace(b"Proj", b"nn.M"))
    assert file["reads"] == []


@pytest.mark.parametrize(
    "change",
    [
        (b"def double(x):", b"def double(x):\n    print(x)"),  # has an effect
        (b"def double(x):", b"def double(x):\n    x.mul_(2)"),
        (b"def double(x):", b"if torch.cuda.is_available():\n  def double(x):"),
        (b"def double(x):", b"@torch.compile\ndef double(x):"),
        (b"class Proj", b"double = torch.compile(double)\n\n\nclass Proj"),
        (b"class Proj", b"def double(x):\n    return x\n\n\nclass Proj"),
        (b"import torch\n", b"import torch\n\xef\xbd\x84ouble = 1\n"),  # NFKC: double
        (b"double", b"treble"),
    ],
)
def test_what_is_not_certain_there(folder, change):
    (folder / "layers.py").write_bytes(LAYERS.replace(*change))
    assert fused(rewritten(folder, b"from .layers import double", FUNCTION)) == []


def test_names_of_other_files_are_other_names(folder):
    """A constant of the same name is another value there: the inputs differ."""
    scaled = b"def scaled(x):\n    return x * SCALE\n"
    body = AROUND.replace(b"%s", b"None", 1) % b"self.q_proj(scaled(x))"
    body = body.replace(b"self.k_proj(x)", b"self.k_proj(x * SCALE)")
    (folder / "layers.py").write_bytes(LAYERS + b"\n\nSCALE = 3.0\n\n\n" + scaled)
    assert fused(rewritten(folder, b"SCALE = 2.0\n" + scaled, body)) == ["linears"]
    file = rewritten(folder, b"from .layers import scaled\nSCALE = 2.0", body)
    assert (len(file["reads"]), fused(file)) == (1, [])


def test_a_function_given_to_another_file(folder):
    """`double` is this file's there, not that file's own."""
    (folder / "layers.py").write_bytes(LAYERS + b"\n\ndef apply(f, x):\n    return f(x)\n")
    body = b"def double(x):\n    print(x)\n\n\n" + FUNCTION.replace(b"double(", b"apply(double, ")
    assert fused(rewritten(folder, b"from .layers import apply", body)) == []


def test_reexported(folder):
    for i in range(12):
        source = "layers" if i == 0 else f"step{i - 1}"
        (folder / f"step{i}.py").write_text(f"from .{source} import double\n")
    assert fused(rewritten(folder, b"from .step3 import double", FUNCTION)) == ["linears"]
    assert fused(rewritten(folder, b"from .step11 import double", FUNCTION)) == []


def test_cycles(folder):
    (folder / "layers.py").write_text(
        "from .round import double, Norm\nfrom .modeling_x import Base\n"
    )
    (folder / "round.py").write_text("from .layers import double, Norm\n")
    for imports, body in (
        (b"from .layers import double", FUNCTION),
        (b"from .layers import Norm", MODULE),
        (b"from .layers import Base as Projections", DERIVED),
    ):
        assert fused(rewritten(folder, imports, body)) == []


def test_classes_in_a_cycle(folder):
    """Each one's forward calls the other."""
    text = "from torch import nn\nfrom .%s import %s\n\n\nclass %s(nn.Module):\n    def __init__(self, size):\n        self.o = %s(size)\n\n    def forward(self, x):\n        return self.o(x)\n"
    (folder / "layers.py").write_text(text % ("two", "Two", "Norm", "Two"))
    (folder / "two.py").write_text(text % ("layers", "Norm", "Two", "Norm"))
    assert fused(rewritten(folder, b"from .layers import Norm", MODULE)) == []


@pytest.mark.parametrize("kind", ["syntax", "binary", "folder", "fifo", "large"])
def test_unreadable(folder, kind):
    path = folder / "layers.py"
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        data = {"syntax": b"def (:\n", "binary": b"\0", "large": b"#" * (9 << 20)}[kind]
        path.write_bytes(data)
    file = rewritten(folder, b"from .layers import Norm", MODULE)
    assert fused(file) == [] and file["reads"][0]["fault"]
    assert any(
        line.startswith(f"not read: {path}: ")
        for line in lines(run(folder / "modeling_x.py").stderr)
    )


def test_limit(folder):
    """Of forty files 32 are read; the others are unknown code."""
    for i in range(40):
        (folder / f"part{i}.py").write_text(f"def f{i}(x):\n    return x * 2\n")
    imports = "".join(f"from .part{i} import f{i}\n" for i in range(40)).encode()
    calls = b"".join(b"    x = f%d(x)\n" % i for i in range(40))
    file = rewritten(folder, imports, b"def all_of_them(x):\n" + calls + b"    return x\n")
    assert len(file["reads"]) == 32


def test_inherited_forward(folder):
    """Of a class that changes nothing; one with a method of its own may compute something else."""
    body = b"class Mine(Norm):\n    pass\n\n\n" + MODULE.replace(b"Norm(size)", b"Mine(size)")
    assert fused(rewritten(folder, b"from .layers import Norm", body)) == ["linears"]
    body = body.replace(b"    pass\n", b"    def helper(self, x):\n        print(x)\n")
    assert fused(rewritten(folder, b"from .layers import Norm", body)) == []


def test_overridden_attribute(folder):
    """The derived class has something else under the name that its base makes an nn.Linear."""
    body = DERIVED.replace(
        b"    def forward",
        b"    def __init__(self, size):\n        super().__init__(size)\n        self.k_proj = print\n\n    def forward",
    )
    assert fused(rewritten(folder, b"from .layers import Projections", body)) == []


@pytest.fixture
def package(tmp_path):
    """A stand-in for Transformers with two models."""
    root = tmp_path / "site" / "transformers"
    for name, data in {
        "modeling_utils.py": LAYERS,
        "models/one/modeling_one.py": LAYERS,
        "models/two/__init__.py": b"",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


ONE = b"from transformers.models.one.modeling_one import Norm"


@pytest.mark.parametrize("imports", [ONE, b"from ..one.modeling_one import Norm"])
def test_within_transformers(package, imports):
    file = rewritten(package, imports, MODULE, name="models/two/modeling_two.py")
    assert fused(file) == ["linears"]
    assert [e["path"] for e in file["reads"]] == [str(package / "models/one/modeling_one.py")]


@pytest.mark.parametrize(
    "imports",
    [b"from ...modeling_utils import Norm", b"from transformers.modeling_utils import Norm"],
)
def test_the_machinery_of_transformers_is_not_read(package, imports):
    file = rewritten(package, imports, MODULE, name="models/two/modeling_two.py")
    assert (fused(file), file["reads"]) == ([], [])


def test_transformers_from_elsewhere(package, tmp_path):
    assert fused(rewritten(tmp_path, ONE, MODULE)) == []
    assert fused(rewritten(tmp_path, ONE, MODULE, "--transformers", package)) == ["linears"]
    done = run("--transformers", tmp_path / "none", tmp_path / "modeling_x.py")
    assert done.returncode == 2 and b"--transformers needs the folder" in done.stderr


def test_a_link(folder, tmp_path):
    """Hub snapshots are links to blobs: what is beside the link counts."""
    (tmp_path / "blobs").mkdir()
    blob = tmp_path / "blobs" / "0123"
    blob.write_bytes(HEAD % b"from .layers import Norm" + MODULE)
    (folder / "modeling_x.py").symlink_to(blob)
    assert fused(entry(folder / "modeling_x.py")) == ["linears"]


def test_a_folder_of_files(folder):
    """Files that others import from are rewritten, or not, as if alone."""
    (folder / "modeling_layers.py").write_bytes(LAYERS)
    for name in ("a", "b"):
        rewritten(folder, b"from .modeling_layers import Norm", MODULE, name=f"modeling_{name}.py")
    files = json.loads(run("--json", folder).stdout)["files"]
    assert [fused(f) for f in files] == [["linears"], ["linears"], ["rms_norm"]]
    assert [len(f["reads"]) for f in files] == [1, 1, 0]
    done = run("-w", "-q", folder)
    assert done.returncode == 0
    again = json.loads(run("--json", folder).stdout)["files"]
    assert not any(f["changed"] for f in again)


ROPE = b"""\
import torch


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotate(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed
"""
ROTATED = b"def f(q, k, cos, sin):\n    q, k = rotate(q, k, cos, sin)\n    return q, k\n"


def test_an_imported_helper_is_guarded(package, tmp_path):
    """Only where the guard at run time finds it: under its own name, from the file beside it."""
    (tmp_path / "rope.py").write_bytes(ROPE)
    (tmp_path / "on.py").write_text("from .rope import rotate\n")
    (package / "models/one/rope.py").write_bytes(ROPE)
    path = tmp_path / "modeling_x.py"
    assert fused(rewritten(tmp_path, b"from .rope import rotate", ROTATED)) == ["rope"]
    assert b"unsqueeze_dim=1, via=rotate)" in run(path).stdout
    for imports, body in (
        (b"from .rope import rotate as turn", ROTATED.replace(b"rotate", b"turn")),
        (b"from . import rope", ROTATED.replace(b"rotate", b"rope.rotate")),
        (b"from .on import rotate", ROTATED),
        (b"from transformers.models.one.rope import rotate", ROTATED),
    ):
        file = rewritten(tmp_path, imports, body, "--transformers", package)
        assert fused(file) == []
        reasons = [e["reason"] for e in file["refused"]]
        assert "it is made by code of another file: it would be fused there" in reasons
