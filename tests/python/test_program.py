"""Finding and running the C program, and `tfrewrite.rewrite`."""

import shutil

import pytest
import tfrewrite
from tfrewrite import program

SOURCE = """import torch
from torch import nn


class DemoMLP(nn.Module):
    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)
"""


@pytest.mark.parametrize("kind", ["text", "bytes", "path"])
def test_rewrite(standin, tmp_path, kind):
    path = tmp_path / "modeling_demo.py"
    path.write_text(SOURCE)
    result = tfrewrite.rewrite({"text": SOURCE, "bytes": SOURCE.encode(), "path": path}[kind])
    assert result.changed and "tfr.demo_mul(self.act_fn, gate, up)" in result.text
    assert [e["op"] for e in result.fused] == ["demo_mul"] and result.refused[0][
        "reason"
    ] == "branch"
    assert path.read_text() == SOURCE


def test_nothing_to_rewrite(standin):
    result = tfrewrite.rewrite("x = 1\n")
    assert not result.changed and result.text == "x = 1\n" and result.fused == []


def test_encoding_of_the_source_is_kept(standin, tmp_path):
    result = tfrewrite.rewrite(b"\xef\xbb\xbf" + SOURCE.encode() + "# é\n".encode())
    assert result.data.startswith(b"\xef\xbb\xbf") and result.text.endswith("# é\n")


@pytest.mark.parametrize(
    "fault,status,said",
    [
        ("refuse", 3, "<source>: refused: tfrewrite: <source>:3:7: brackets too deep"),
        ("usage", 2, "<source>: exit status 2: tfrewrite: no op called x"),
        ("crash", -11, "died of signal 11"),
        ("bad python", None, "Python does not accept"),
        ("no report", None, "no usable report"),
    ],
)
def test_faults_raise(standin, monkeypatch, fault, status, said):
    monkeypatch.setenv("STANDIN", fault)
    with pytest.raises(tfrewrite.RewriteError) as caught:
        tfrewrite.rewrite(SOURCE)
    assert caught.value.status == status and said in str(caught.value)


def test_file_that_changes_meanwhile(standin, tmp_path):
    path = tmp_path / "modeling_demo.py"
    path.write_text("x = 1\n")
    with pytest.raises(tfrewrite.RewriteError, match="changed while it was being rewritten"):
        program.run(b"x = 0\n", str(path), program.Options())


def test_wrong_target():
    with pytest.raises(ValueError, match="choose auto, host or cuda"):
        tfrewrite.rewrite("x = 1\n", target="tpu")


def test_search_order(tmp_path, monkeypatch, standin):
    on_path = tmp_path / "tfrewrite"
    shutil.copy(standin, on_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.find() == str(standin)
    monkeypatch.delenv("TFR_BIN")
    package = tmp_path / "package"
    (package / "bin").mkdir(parents=True)
    monkeypatch.setattr(program, "__file__", str(package / "program.py"))
    assert program.find() == str(on_path)
    shutil.copy(standin, package / "bin" / "tfrewrite")
    assert program.find() == str(package / "bin" / "tfrewrite")
    monkeypatch.setenv("TFR_BIN", str(tmp_path / "missing"))
    with pytest.raises(tfrewrite.RewriteError, match="TFR_BIN=.*not an executable file"):
        program.find()


def test_identity_is_the_content(tmp_path, monkeypatch, standin):
    copy = tmp_path / "copy"
    shutil.copy(standin, copy)
    first = program.identity()
    monkeypatch.setenv("TFR_BIN", str(copy))
    assert program.identity() == first
    copy.write_text(copy.read_text() + "#\n")
    assert program.identity() != first


def test_rules_enter_the_identity_by_content(tmp_path):
    options = program.Options.make(rules=tmp_path)
    empty = options.identity()
    (tmp_path / "mine.py").write_text("1\n")
    first = options.identity()
    (tmp_path / "mine.py").write_text("2\n")
    assert empty != first != options.identity()
    assert str(tmp_path) not in str(first)
