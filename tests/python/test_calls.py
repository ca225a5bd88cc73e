"""Every op call that the program writes into Transformers' modeling files has a variant.

And where a call names a helper, the helper can be called as the op would call it.
"""

import ast
import collections
import importlib.util
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tfrewrite import rules


def modeling_files():
    home = Path(importlib.util.find_spec("transformers").origin).parent
    return sorted(home.glob("models/*/modeling_*.py"))


@pytest.fixture(scope="module")
def calls(binary, tmp_path_factory):
    """(file, call, tree) of every `tfr.<op>(...)` in the rewritten files."""
    folder = tmp_path_factory.mktemp("rewritten")

    def rewrite(path):
        out = folder / path.name
        command = [binary, "--target", "host", "-o", out, path]
        subprocess.run(command, check=True, capture_output=True)
        return out

    with ThreadPoolExecutor(2) as pool:
        outs = list(pool.map(rewrite, modeling_files()))
    trees = [(out.name, ast.parse(out.read_bytes())) for out in outs]  # Python's has no threads
    return [(name, n, tree) for name, tree in trees for n in ast.walk(tree) if is_op_call(n)]


def is_op_call(node):
    f = getattr(node, "func", None)
    return isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == "tfr"


def variant_of(call):
    literals = {k.arg: k.value for k in call.keywords if k.arg not in ("via", "inner")}
    for variant in rules.load()[call.func.attr].variants:
        if variant.at_least is not None:
            if len(call.args) >= len(variant.positional) + variant.at_least:
                return variant
        elif (
            len(variant.positional) == len(call.args)
            and set(literals) == set(variant.literals) | set(variant.named)
            and all(ast.literal_eval(literals[k]) == v for k, v in variant.literals.items())
        ):
            return variant
    return None


def test_every_call_has_a_variant(calls):
    seen = collections.Counter()
    for file, call, _tree in calls:
        variant = variant_of(call)
        assert variant is not None, f"{file}:{call.lineno}: {ast.unparse(call)}"
        seen[call.func.attr] += 1
    assert set(seen) >= {"rms_norm", "add_rms_norm", "linears", "act_mul", "rope", "qk_norm_rope"}
    assert seen["linear"] > 300
    assert seen.total() > 1000


def test_every_helper_takes_the_fallback(calls):
    checked = 0
    for file, call, tree in calls:
        via = next((k.value for k in call.keywords if k.arg == "via"), None)
        if via is None:
            continue
        where = f"{file}:{call.lineno}: {ast.unparse(call)}"
        passed = [e.value for e in via.elts[1:]] if isinstance(via, ast.Tuple) else []
        via = via.elts[0] if isinstance(via, ast.Tuple) else via
        method = isinstance(via, ast.Attribute)  # self._norm
        name = via.attr if method else via.id
        helper = next(
            (
                n
                for body in (
                    [c.body for c in tree.body if isinstance(c, ast.ClassDef)]
                    if method
                    else [tree.body]
                )
                for n in body
                if isinstance(n, ast.FunctionDef) and n.name == name
            ),
            None,
        )
        assert helper is not None, f"{where}: no function {name} in the file"
        (form,) = [
            n
            for n in ast.walk(ast.parse(variant_of(call).fallback))
            if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "via"
        ]
        names = [a.arg for a in helper.args.args][method:]
        assert set(passed) <= {*names, *(a.arg for a in helper.args.kwonlyargs)}, where
        required = names[: len(names) - len(helper.args.defaults)]
        assert len(required) <= len(form.args) <= len(names), where
        for expression, name in zip(form.args, names, strict=False):
            given = {n.id for n in ast.walk(expression) if isinstance(n, ast.Name)}
            for known in ("cos", "sin"):  # by name where both sides have one
                assert name != known or known in given, f"{where}: {known} is argument {name}"
        checked += 1
    assert checked > 100
