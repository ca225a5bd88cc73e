"""libtfrewrite.so and how it is loaded: before torch, twice, from a second path, or not at all."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from child import Child

HEAD = """
import ctypes, sys

def load(path):
    library = ctypes.CDLL(path)
    library.tfr_torch_register.restype = ctypes.c_char_p
    library.tfr_torch_registered.restype = ctypes.c_char_p
    return library

def register(library):
    why = library.tfr_torch_register(None)
    return why and why.decode()
"""


@pytest.fixture
def library(binary):
    path = Path(binary).resolve().parent / "libtfrewrite.so"
    assert path.is_file(), f"{path} is not built"
    return path


@pytest.fixture
def child(tmp_path, library):
    """Runs a script in a process that has torch but not yet the library; gives what it prints."""

    def run(script, **environment):
        folder = tmp_path / "child"
        folder.mkdir(exist_ok=True)
        text = f"{HEAD}\nLIBRARY = {str(library)!r}\n{script}"
        done = Child(text, folder, **environment).wait()
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_before_torch(library):
    """Nothing of torch is needed to load it; the ops can be registered once torch is there."""
    script = f"""{HEAD}
library = load({str(library)!r})
assert "torch" not in sys.modules
print(register(library), library.tfr_torch_registered())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    message = "libtorch_cpu.so is not loaded: import torch before tfrewrite's library"
    assert done.stdout == f"{message} b''\n"


def test_twice(child):
    """Python's package and somebody's own code may both do it, also at the same moment."""
    done = child("""
import threading
first, again = load(LIBRARY), load(LIBRARY)
faults = []
threads = [threading.Thread(target=lambda: faults.append(register(first))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
names = first.tfr_torch_registered()
assert faults == [None] * 8 and len(names) > 100
assert register(again) is None and again.tfr_torch_registered() == names
import torch, tfrewrite.ops
x = torch.ones(2, 4)
assert torch.equal(torch.ops.tfr.rms_norm.no_weight(x, 0.0), x)
""")
    assert done.stderr == ""


def test_after_a_try_without_torch(library):
    script = f"""{HEAD}
library = load({str(library)!r})
assert "import torch before" in register(library)
import torch
assert register(library) is None
torch.ops.tfr.rms_norm.no_weight(torch.ones(2, 4), 1e-6)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_second_copy(child, library, tmp_path):
    """Two installations in one process: the second says where the first is."""
    copy = shutil.copy(library, tmp_path / "libtfrewrite.so")
    done = child(f"""
assert register(load(LIBRARY)) is None
print(register(load({str(copy)!r})))
import torch, tfrewrite.ops
torch.ops.tfr.rms_norm.no_weight(torch.ones(2, 4), 1e-6)
""")
    assert "another copy" in done.stdout and str(library) in done.stdout


def test_a_second_copy_under_another_name(child, library, tmp_path):
    copy = shutil.copy(library, tmp_path / "kernels.so")
    done = child(f"""
assert register(load({str(copy)!r})) is None
print(register(load(LIBRARY)))
""")
    assert "torch refused the library `tfr`" in done.stdout


def test_a_link_is_no_copy(child, library, tmp_path):
    (tmp_path / "libtfrewrite.so").symlink_to(library)
    child(f"""
assert register(load(LIBRARY)) is None
assert register(load({str(tmp_path / "libtfrewrite.so")!r})) is None
""")


def test_the_second_copy_leaves_the_package_working(child, library, tmp_path):
    """Its own library comes too late: references run, and one warning says why."""
    copy = shutil.copy(library, tmp_path / "libtfrewrite.so")
    done = child(f"""
import warnings
assert register(load({str(copy)!r})) is None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    from tfrewrite import ops
    x = torch.randn(2, 8)
    with ops.record() as calls:
        ops.rms_norm(x, torch.ones(8), 1e-6, order="cast_weight")
print(*[w.message for w in caught], sep="\\n")
print(list(calls))
""")
    assert done.stdout.count("runs without kernels") == 1, done.stdout
    assert str(copy) in done.stdout


@pytest.mark.parametrize("what", ["missing", "text", "another library"])
def test_no_library(child, library, tmp_path, what):
    """Nothing breaks, and it is said once."""
    path = tmp_path / "libtfrewrite.so"
    if what == "text":
        path.write_text("no library\n")
    elif what == "another library":
        text = "int nothing;\n"
        command = ["cc", "-shared", "-x", "c", "-", "-o", str(path)]
        subprocess.run(command, input=text, text=True, check=True)
    done = child(
        """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    from tfrewrite import ops, rules
    ops.install(rules.load())
    with ops.record() as calls:
        ops.rms_norm(torch.ones(2, 8), torch.ones(8), 1e-6, order="cast_weight")
(warning,) = [str(w.message) for w in caught]
print(warning, list(calls))
""",
        TFR_LIB=str(path),
    )
    assert "tfrewrite runs without kernels: " in done.stdout and str(path) in done.stdout
    assert "'reference'" in done.stdout


def test_warnings_as_errors(child, tmp_path):
    """The import succeeds whatever the filters make of it."""
    done = child(
        """
import warnings
warnings.simplefilter("error")
import torch
from tfrewrite import ops
ops.rms_norm(torch.ones(2, 8), torch.ones(8), 1e-6, order="cast_weight")
""",
        TFR_LIB=str(tmp_path / "nothing.so"),
    )
    assert done.stderr.count("tfrewrite runs without kernels: ") == 1
