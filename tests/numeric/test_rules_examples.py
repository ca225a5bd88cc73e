"""The accept and reject examples of the rule files, run through the program.

It must take what it should, by the variant it should, and no more.
"""

import ast
import importlib
import sys
import tempfile
import textwrap
from pathlib import Path

import harness
import pytest

PRELUDE = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n"


def rules():
    return importlib.import_module("tfrewrite.rules").load()


def examples():
    """(op, variant, example text, expected) of every rule file."""
    accept, reject = [], []
    for op in rules().values():
        module = sys.modules[op.module]
        for name, texts in getattr(module, "ACCEPT", {}).items():
            if any(v.name == name for v in op.variants):
                accept += [(op.name, name, t, i) for i, t in enumerate(texts)]
        reject += [(op.name, t, i) for i, t in enumerate(getattr(module, "REJECT", []))]
    return accept, reject


ACCEPT, REJECT = examples()


def run(text: str, op: str, target: str = "auto"):
    source = PRELUDE + textwrap.dedent(text).strip("\n") + "\n"
    compile(source, "example", "exec")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "modeling_example.py"
        path.write_text(source)
        result = harness.rewrite_file(path, "--only", op, "--target", target)
        path.write_text(result.text)
        again = harness.rewrite_file(path, "--only", op, "--target", target)
    compile(result.text, "rewritten example", "exec")
    assert not again.changed and again.text == result.text, "a second pass changes it"
    return source, result


def selects(call: ast.Call, variant) -> bool:
    """Whether this call is one of `variant`: its literals and its number of arguments."""
    literals = {
        k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg in variant.literals
    }
    others = (
        {k.arg for k in call.keywords}
        - set(variant.literals)
        - set(variant.named)
        - {"via", "inner"}
    )
    size = len(variant.positional)
    enough = (
        len(call.args) == size
        if variant.at_least is None
        else len(call.args) >= size + variant.at_least
    )
    fixed = all(
        isinstance(p, str) or isinstance(a, ast.Constant) and a.value == p.value
        for p, a in zip(variant.positional, call.args)
    )
    return literals == variant.literals and not others and enough and fixed


@pytest.mark.parametrize(
    "op,name,text,number", ACCEPT, ids=[f"{o}-{n}-{i}" for o, n, _, i in ACCEPT]
)
def test_accepted(op, name, text, number):
    variant = next(v for v in rules()[op].variants if v.name == name)
    _, result = run(text, op, variant.target)
    assert result.changed and result.fused, [r["reason"] for r in result.refused]
    assert {f["op"] for f in result.fused} == {op}
    calls = [c for c, called, _ in harness.op_calls(result.text) if called == op]
    assert any(selects(c, variant) for c in calls), [ast.unparse(c) for c in calls]


@pytest.mark.parametrize("op,text,number", REJECT, ids=[f"{o}-{i}" for o, _, i in REJECT])
def test_rejected(op, text, number):
    source, result = run(text, op)
    assert not result.changed and not result.fused and result.text == source
    assert not harness.op_calls(result.text)


def test_every_variant_has_an_accepted_example():
    have = {(op, name) for op, name, _, _ in ACCEPT}
    assert [
        v
        for op in rules().values()
        for v in [(op.name, v.name) for v in op.variants]
        if v not in have
    ] == []


def test_every_op_has_a_rejected_example():
    have = {op for op, _, _ in REJECT}
    assert [op for op in rules() if op not in have] == []


def test_examples_name_references():
    """An ACCEPT key that is no reference of its file would silently test nothing."""
    for op in rules().values():
        names = {
            v.name
            for other in rules().values()
            if other.module == op.module
            for v in other.variants
        }
        assert set(getattr(sys.modules[op.module], "ACCEPT", {})) <= names, op.name


def test_only_keeps_other_ops_away():
    """--only is what the tests above rest on: the same text with another op in it stays as it
    is."""
    op, name, text, _ = next(e for e in ACCEPT if e[0] == "rms_norm")
    _, result = run(text, "act_mul")
    assert not result.changed
