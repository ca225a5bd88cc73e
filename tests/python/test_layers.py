"""scripts/check_layers.py passes on the tree and finds each kind of fault in a made-up one."""

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


def check(root: Path) -> tuple[int, str]:
    run = subprocess.run(
        [sys.executable, REPO / "scripts" / "check_layers.py", root],
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout + run.stderr


def test_tree_is_clean():
    status, output = check(REPO)
    assert status == 0, output


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("parser/a.c", '#include "rewriter/b.h"', "parser/ must not include rewriter/"),
        ("rewriter/a.c", '#include "cli/b.h"', "rewriter/ must not include cli/"),
        ("rewriter/a.c", '#include "runtime/driver.h"', "rewriter/ must not include runtime/"),
        ("jit/a.c", '#include "runtime/driver.h"', "jit/ must not include runtime/"),
        ("jit/a.c", "#include <torch/csrc/api.h>", "jit/ must not know"),
        ("rewriter/a.c", "#include <cuda.h>", "rewriter/ must not know"),
        ("rewriter/a.c", '#include "b.h"', "includes name the folder"),
        ("parser/a.c", 'void f(void) { printf("x"); }', "only cli/ prints or exits"),
        ("rewriter/a.c", "void f(void) { exit(1); }", "only cli/ prints or exits"),
        ("cli/a.c", "void *p = malloc(1);", "only runtime/arena.c allocates"),
        ("rewriter/a.c", 'bool f(tfr_str s) { return eq(s, "Qwen3MLP"); }', "a model's name"),
        ("parser/error.c", "", "the name is taken by"),
    ],
)
def test_fault_is_found(tmp_path, file, line, fault):
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "error.c").write_text("int x;\n")
    (tmp_path / "cli").mkdir()
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"\n{line}\n")
    status, output = check(tmp_path)
    assert status == 1
    assert fault in output


def test_comments_and_texts_are_no_faults(tmp_path):
    (tmp_path / "parser").mkdir()
    (tmp_path / "parser" / "a.c").write_text(
        "// printf(x), malloc(1); Qwen3 writes it so\n"
        "/* exit(1)\n   Llama too */\n"
        '#include "parser/b.h"\n#include "runtime/arena.h"\n#include <string.h>\n'
        'const char *text = "printf(";\n'
        "void f(void) { snprintf(0, 0, 0); tfr_arena_free(0); }\n"
    )
    status, output = check(tmp_path)
    assert status == 0, output
