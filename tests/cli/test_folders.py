"""Folders: which files are taken, their order, links and loops, faults among many, and -o."""

from __future__ import annotations

import json
import os

import pytest
from cli_tool import EXAMPLE, PLAIN, Unprivileged, lines, names, run, state


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for name, data in {
        "b/modeling_b.py": EXAMPLE,
        "a/modeling_a.py": PLAIN,
        "a/deep/er/modeling_d.py": EXAMPLE,
        "modeling_z.py": EXAMPLE,
        "a/configuration_a.py": EXAMPLE,
        "a/modeling_a.txt": EXAMPLE,
        "a/my_modeling_a.py": EXAMPLE,
        "a/modeling_.py": EXAMPLE,
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


TAKEN = ["a/deep/er/modeling_d.py", "a/modeling_a.py", "b/modeling_b.py", "modeling_z.py"]


def paths(*args, **options) -> list[str]:
    return [f["path"] for f in json.loads(run("--json", *args, **options).stdout)["files"]]


def test_which_files_and_their_order(tree):
    assert paths(tree) == [f"{tree}/{name}" for name in TAKEN]
    assert paths(f"{tree}/") == [f"{tree}/{name}" for name in TAKEN]
    assert paths(".", cwd=tree) == TAKEN


def test_report_without_a_mode_writes_nothing(tree):
    before = {p: state(p) for p in tree.rglob("*.py")}
    done = run(tree)
    assert (done.returncode, done.stdout) == (0, b"")
    report = lines(done.stderr)
    assert sum(line.startswith(f"{tree}/") for line in report) == 3
    assert any(line.startswith("4 files: blocks fused in 3") for line in report)
    assert "use -w" in report[-1] and "-d" in report[-1]
    assert {p: state(p) for p in tree.rglob("*.py")} == before


def test_in_place(tree):
    want = run("-q", tree / "modeling_z.py").stdout
    untouched = {p: state(p) for p in tree.rglob("*") if p.is_file() and p.read_bytes() == PLAIN}
    assert untouched
    done = run("-w", tree)
    assert done.returncode == 0
    assert lines(done.stderr)[-1] == "3 of 4 files rewritten in place"
    for name in TAKEN:
        data = (tree / name).read_bytes()
        assert data == (PLAIN if name == "a/modeling_a.py" else want)
    assert (tree / "a/configuration_a.py").read_bytes() == EXAMPLE
    assert {p: state(p) for p in untouched} == untouched
    assert run("--check", tree).returncode == 0


def test_diff_and_check(tree):
    done = run("-d", tree)
    assert done.returncode == 0
    headers = [line for line in lines(done.stdout) if line.startswith("--- a/")]
    assert [h.rpartition("/tree/")[2] for h in headers] == [TAKEN[0], TAKEN[2], TAKEN[3]]
    done = run("--check", tree)
    assert (done.returncode, done.stdout) == (1, b"")
    assert lines(done.stderr)[-1] == "3 of 4 files would change"


@pytest.mark.parametrize("inside", [False, True], ids=["beside", "inside"])
def test_output_folder_mirrors_the_tree(tree, tmp_path, inside):
    want = run("-q", tree / "modeling_z.py").stdout
    out = (tree if inside else tmp_path) / "out" / "new"
    for _ in range(2):  # the second time the files are there already
        done = run("-o", out, tree)
        assert (done.returncode, done.stdout) == (0, b"")
        assert lines(done.stderr)[-1] == f"4 files written to {out}, 3 of them changed"
        assert [n for n in names(out) if n.endswith(".py")] == TAKEN
        assert (out / "modeling_z.py").read_bytes() == want
        assert (out / "a/modeling_a.py").read_bytes() == PLAIN
    assert (tree / "modeling_z.py").read_bytes() == EXAMPLE
    out = tmp_path / "relative"
    assert run("-o", out, ".", cwd=tree).returncode == 0
    assert "a/deep/er/modeling_d.py" in names(out)


def test_output_folder_that_cannot_be(tree, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    for out, word in ((file, "this is a file"), (tree, "use -w"), (f"{tree}/a/..", "use -w")):
        done = run("-o", out, tree)
        (line,) = lines(done.stderr)
        assert done.returncode == 2 and word in line
    done = run("-o", file / "below", tree)
    assert done.returncode == 2
    assert all("cannot make this folder" in line for line in lines(done.stderr)[:4])


def test_loop_of_links(tree):
    (tree / "a" / "deep" / "up").symlink_to("../..")
    (tree / "here").symlink_to(".")
    (tree / "one").symlink_to("two")
    (tree / "two").symlink_to("one")
    assert paths(tree) == [f"{tree}/{name}" for name in TAKEN]


def test_links_to_folders_and_files(tree, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "blob").write_bytes(EXAMPLE)
    (elsewhere / "modeling_e.py").write_bytes(EXAMPLE)
    (tree / "aaa").symlink_to("b")  # the real name counts, although this one sorts first
    (tree / "modeling_aaa.py").symlink_to("modeling_z.py")
    (tree / "c").symlink_to(elsewhere)
    (tree / "modeling_link.py").symlink_to("../elsewhere/blob")
    want = sorted([*TAKEN, "c/modeling_e.py", "modeling_link.py"])
    assert paths(tree) == [f"{tree}/{name}" for name in want]
    done = run("-w", tree)
    assert done.returncode == 0
    assert b"tfr." in (elsewhere / "blob").read_bytes()
    assert (tree / "modeling_link.py").is_symlink() and (tree / "c").is_symlink()
    assert names(elsewhere) == ["blob", "modeling_e.py"]


def test_one_fault_does_not_stop_the_others(tree):
    bad = tree / "a" / "modeling_0.py"
    bad.write_bytes(b"x = (\n")
    done = run("-w", tree)
    assert done.returncode == 3
    first = lines(done.stderr)[0]
    assert first.startswith(f"{bad}:1:5: refused: ")
    assert "1 failed or refused" in done.stderr.decode()
    assert bad.read_bytes() == b"x = (\n"
    assert b"tfr." in (tree / "modeling_z.py").read_bytes()
    assert run("--check", tree).returncode == 3  # the worst of all, not the last
    bad.unlink()
    bad.symlink_to("nowhere")
    done = run("--check", tree)
    assert done.returncode == 2
    assert lines(done.stderr)[0].startswith(f"{bad}: error: cannot read it")


def test_several_files(tree):
    done = run(tree / "modeling_z.py", tree / "none.py", tree / "b" / "modeling_b.py")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "blocks fused in 2" in done.stderr.decode()


def test_nothing_below(tmp_path):
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    (line,) = lines(done.stderr)
    assert "NOTHING TO DO" in line
    assert json.loads(run("--json", tmp_path).stdout) == {"version": 1, "files": []}


def test_folder_that_may_not_be_read(tmp_path):
    unprivileged = Unprivileged(tmp_path)
    closed = tmp_path / "a"
    closed.mkdir()
    (tmp_path / "modeling_x.py").write_bytes(PLAIN)
    closed.chmod(0)
    done = unprivileged.run("--json", tmp_path)
    closed.chmod(0o755)
    assert done.returncode == 2
    assert lines(done.stderr) == [f"{closed}: error: cannot read this folder: Permission denied"]
    assert len(json.loads(done.stdout)["files"]) == 1


def test_many_folders(tmp_path):
    path = tmp_path
    for i in range(60):
        path = path / f"d{i}"
        (path / "side").mkdir(parents=True)
        (path / "side" / "up").symlink_to("..")
        (path / f"modeling_{i}.py").write_bytes(PLAIN)
    assert len(paths(tmp_path)) == 60


def test_a_name_with_everything(tmp_path):
    folder = tmp_path / " -w\n:3'\"$(x)"
    folder.mkdir()
    (folder / "modeling_ \t:7.py").write_bytes(EXAMPLE)
    assert run("-w", tmp_path).returncode == 0
    assert os.listdir(folder) == ["modeling_ \t:7.py"]
    assert b"tfr." in (folder / "modeling_ \t:7.py").read_bytes()
