"""runtime/torch_abi.h against the headers of the installed torch: every symbol has the result and
the arguments that we declare. Compile only; a wrong declaration is a compile error that names it.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "runtime/torch_abi.h").read_text()
INCLUDE = Path(torch.__file__).parent / "include"
COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++", "clang++-14"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler for torch's headers")

CHECK = """
#include <type_traits>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/stable/c/shim.h>
#define _Noreturn
#include "torch_abi.h"
// Handles are pointers to types of torch's own; everything else must be the same type.
template <class A, class B>
constexpr bool same = std::is_same_v<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>);
template <class A, class B> struct agree : std::false_type {};
template <class R, class... A, class S, class... B>
struct agree<R (*)(A...), S (*)(B...)> {
    static constexpr bool check() {
        if constexpr (sizeof...(A) != sizeof...(B)) return false;
        else return same<R, S> && (same<A, B> && ...);
    }
    static constexpr bool value = check();
};
#define X(result, name, arguments, version) \
    static_assert(agree<decltype(&::name), decltype(tfr_torch_api::name)>::value, #name);
TFR_TORCH_SYMBOLS(X)
"""


def compile_check(header: str, folder: Path) -> subprocess.CompletedProcess:
    (folder / "torch_abi.h").write_text(header)
    (folder / "check.cpp").write_text(CHECK)
    flags = ["-std=c++17", "-fsyntax-only", "-w", f"-I{folder}", f"-I{INCLUDE}"]
    command = [COMPILER, *flags, str(folder / "check.cpp")]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@needs_compiler
def test_declarations_are_those_of_torch(tmp_path):
    done = compile_check(HEADER, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]


@needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("aoti_torch_get_dim, (tfr_tensor, int64_t *)", "aoti_torch_get_dim, (tfr_tensor)"),
        ("aoti_torch_get_dtype, (tfr_tensor, int32_t *)", "aoti_torch_get_dtype, (int, int32_t *)"),
        ("X(int32_t, aoti_torch_dtype_float32", "X(int64_t, aoti_torch_dtype_float32"),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path, right, wrong):
    assert right in HEADER
    done = compile_check(HEADER.replace(right, wrong), tmp_path)
    assert done.returncode != 0
    assert re.search(r"aoti_torch_\w+", right)[0] in done.stderr


def test_every_symbol_is_declared_by_torch():
    shims = [
        "inductor/aoti_torch/c/shim.h",
        "inductor/aoti_torch/generated/c_shim_aten.h",
        "inductor/aoti_torch/generated/c_shim_cpu.h",
        "stable/c/shim.h",
    ]
    text = "".join((INCLUDE / "torch/csrc" / shim).read_text() for shim in shims)
    names = re.findall(r"^\s+X\([^,]+, (\w+),", HEADER, re.MULTILINE)
    assert len(names) > 20
    assert [name for name in names if not re.search(rf"\b{name}\(", text)] == []
