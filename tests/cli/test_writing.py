"""-o and -w: complete or not at all, links and modes kept; what a disk that says no does."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest
from cli_tool import (
    BIN,
    EXAMPLE,
    PLAIN,
    Unprivileged,
    environment,
    limit_file_size,
    lines,
    names,
    run,
    state,
)


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "modeling_example.py"
    path.write_bytes(EXAMPLE)
    return path


@pytest.fixture(scope="module")
def rewritten():
    return run("-", stdin=EXAMPLE).stdout


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_in_place(example, rewritten):
    example.chmod(0o640)
    done = run("-w", example)
    assert (done.returncode, done.stdout) == (0, b"")
    assert lines(done.stderr)[-1] == "1 of 1 file rewritten in place"
    assert example.read_bytes() == rewritten
    assert mode(example) == 0o640
    assert names(example.parent) == ["modeling_example.py"]


def test_unchanged_file_is_not_written(tmp_path):
    path = tmp_path / "modeling_plain.py"
    path.write_bytes(PLAIN)
    before = state(path)
    done = run("-w", path)
    assert done.returncode == 0
    assert lines(done.stderr)[-1] == "0 of 1 file rewritten in place"
    assert state(path) == before


def test_second_run_in_place_writes_nothing(example):
    assert run("-w", example).returncode == 0
    before = state(example)
    assert run("-w", example).returncode == 0
    assert state(example) == before


def test_link_stays_and_its_target_is_written(example, rewritten):
    inner = example.parent / "inner"
    inner.mkdir()
    target = inner / "target.py"
    example.rename(target)
    example.symlink_to("inner/target.py")
    second = example.parent / "second.py"
    second.symlink_to(example)
    assert run("-w", second).returncode == 0
    assert os.readlink(example) == "inner/target.py" and second.is_symlink()
    assert target.read_bytes() == rewritten
    assert names(inner) == ["target.py"]


def test_hard_link_elsewhere_keeps_the_original(example, rewritten):
    other = example.parent / "other.py"
    other.hardlink_to(example)
    assert run("-w", example).returncode == 0
    assert (example.read_bytes(), other.read_bytes()) == (rewritten, EXAMPLE)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_owner_is_kept(example, rewritten):
    os.chown(example, 1234, 2345)
    example.chmod(0o2755)
    assert run("-w", example).returncode == 0
    info = example.stat()
    assert (info.st_uid, info.st_gid, mode(example)) == (1234, 2345, 0o2755)
    assert example.read_bytes() == rewritten


def test_output_file(example, rewritten, tmp_path):
    before = state(example)
    out = tmp_path / "out.py"
    example.chmod(0o755)
    done = run("-o", out, example, preexec_fn=lambda: os.umask(0o027))
    assert (done.returncode, done.stdout, out.read_bytes()) == (0, b"", rewritten)
    assert mode(out) == 0o750  # a new file: the source's mode under the umask
    out.chmod(0o604)
    assert run("-o", out, example).returncode == 0
    assert mode(out) == 0o604  # an existing one: its own
    assert state(example)[0] == before[0]
    assert run("-o", tmp_path / "stdin.py", "-", stdin=EXAMPLE).returncode == 0
    assert (tmp_path / "stdin.py").read_bytes() == rewritten


def test_output_of_an_unchanged_file_is_its_copy(tmp_path):
    done = run("-o", tmp_path / "out.py", "-", stdin=PLAIN)
    assert (done.returncode, (tmp_path / "out.py").read_bytes()) == (0, PLAIN)


def test_output_onto_the_source_itself(example, rewritten):
    assert run("-o", example, example).returncode == 0
    assert example.read_bytes() == rewritten


def test_output_dash_is_standard_output(example, rewritten):
    done = run("-o", "-", example, cwd=example.parent)
    assert (done.returncode, done.stdout) == (0, rewritten)
    assert names(example.parent) == ["modeling_example.py"]


def failed_write(done, *words) -> None:
    (line,) = lines(done.stderr)
    assert (done.returncode, done.stdout) == (2, b"")
    for word in ("error", "cannot write", *words):
        assert word in line


def test_output_where_nothing_can_be(example, tmp_path):
    failed_write(run("-o", tmp_path / "none" / "out.py", example), "No such file")
    (tmp_path / "folder").mkdir()
    failed_write(run("-o", tmp_path / "folder", example), "s a directory")
    (tmp_path / "dangling").symlink_to("none")
    failed_write(run("-o", tmp_path / "dangling", example), "link to something that does not")
    failed_write(run("-o", example / "out.py", example), "Not a directory")
    failed_write(run("-o", tmp_path / ("n" * 300), example), "File name too long")
    assert names(tmp_path) == ["dangling", "folder", "modeling_example.py"]


def test_device_stays_a_device(example, rewritten, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    assert run("-o", pipe, example).returncode == 0
    assert reader.communicate(timeout=60)[0] == rewritten
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    failed_write(run("-o", "/dev/full", example), "No space left")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("arguments", [[], ["-d"], ["--json"]], ids=["source", "diff", "json"])
def test_full_disk_behind_standard_output(arguments, example):
    before = state(example)
    with open("/dev/full", "wb") as full:
        done = run(*arguments, example, stdout=full)
    (line,) = lines(done.stderr)
    assert done.returncode == 2
    assert line == "<stdout>: error: cannot write: No space left on device"
    assert state(example) == before


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["rules"]])
def test_full_disk_behind_other_texts(arguments):
    with open("/dev/full", "wb") as full:
        assert run(*arguments, stdout=full).returncode == 2


def test_reader_that_is_gone(example):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(example, stdout=writer)
    os.close(writer)
    assert done.returncode == 2
    assert lines(done.stderr) == ["<stdout>: error: cannot write: Broken pipe"]


def test_closed_standard_output_is_not_the_file(example):
    before = state(example)
    done = run(example, stdout=None, preexec_fn=lambda: os.close(1))
    assert done.returncode == 2 and b"cannot write" in done.stderr
    assert state(example) == before
    done = run("-w", example, stdout=None, stderr=None, preexec_fn=lambda: os.closerange(0, 3))
    assert done.returncode == 0
    assert example.read_bytes().startswith(EXAMPLE[:10])


@pytest.mark.parametrize("size", [0, 1, len(EXAMPLE) // 2])
@pytest.mark.parametrize("how", ["-w", "-o"])
def test_write_that_fails_half_way(how, size, example, tmp_path):
    # A file size limit fails as a full disk does: some bytes are written, then no more.
    out = tmp_path / "out.py"
    out.write_bytes(b"old")
    before = state(example), state(out)
    arguments = ["-w", example] if how == "-w" else ["-o", out, example]
    failed_write(run(*arguments, preexec_fn=limit_file_size(size)), "File too large")
    assert (state(example), state(out)) == before
    assert names(tmp_path) == ["modeling_example.py", "out.py"]


FULL_DISK = """
mount -t tmpfs -o size=64k tmpfs "$1" || exit 77
cp "$2" "$1"/modeling_example.py || exit 77
head -c 1000000 /dev/zero > "$1"/filler 2> /dev/null
"$3" -w "$1"/modeling_example.py
status=$?
cmp "$2" "$1"/modeling_example.py || exit 78
ls -A "$1"
exit $status
"""


def test_full_disk(example, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", FULL_DISK, "sh", disk, example, BIN],
        capture_output=True,
        timeout=60,
        env=environment(),
    )
    if done.returncode == 77 or b"unshare: " in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.decode().strip()}")
    assert done.returncode == 2, done
    assert done.stdout.split() == [b"filler", b"modeling_example.py"]  # nothing left behind
    assert b"No space left" in done.stderr


@pytest.fixture
def unprivileged(tmp_path):
    return Unprivileged(tmp_path)


def test_folder_that_may_not_be_written(unprivileged):
    folder = unprivileged.folder / "closed"
    folder.mkdir()
    path = folder / "modeling_example.py"
    path.write_bytes(EXAMPLE)
    path.chmod(0o666)
    folder.chmod(0o555)
    before = state(path)
    done = unprivileged.run("-w", path)
    failed_write(done, "no new file in its folder", "Permission denied", "nothing was changed")
    failed_write(unprivileged.run("-o", folder / "out.py", path), "Permission denied")
    folder.chmod(0o755)
    assert state(path) == before
    assert names(folder) == ["modeling_example.py"]


def test_file_that_may_not_be_written(unprivileged):
    folder = unprivileged.folder / "open"
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "modeling_example.py"
    path.write_bytes(EXAMPLE)
    path.chmod(0o444)
    unprivileged.own(path)
    before = state(path)
    failed_write(unprivileged.run("-w", path), "Permission denied")
    assert state(path) == before
    assert names(folder) == ["modeling_example.py"]


def test_owner_that_cannot_be_kept(unprivileged, rewritten):
    if not unprivileged.root:
        pytest.skip("needs root to make a file of somebody else")
    folder = unprivileged.folder / "open"
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "modeling_example.py"
    path.write_bytes(EXAMPLE)
    path.chmod(0o4777)
    assert unprivileged.run("-w", path).returncode == 0
    assert path.read_bytes() == rewritten
    assert mode(path) == 0o777  # no set-id bit for another owner
