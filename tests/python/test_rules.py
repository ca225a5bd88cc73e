"""The loader of rule files: what it accepts, and the message for what it does not."""

import subprocess
import sys

import pytest
from tfrewrite import rules


def test_rule_files_are_submodules(tfr):
    from tfrewrite.rules.demo_rope import rotate_half
    from tfrewrite.rules.demo_scaled_rope import half

    assert rotate_half.__module__ == half.__module__ == "tfrewrite.rules.demo_rope"


def test_variants_of_an_op(tfr):
    op = rules.load()["demo_mul"]
    assert [v.name for v in op.variants] == [
        "two_inputs",
        "gate_first",
        "up_first",
        "no_activation",
    ]
    assert op.keywords == ["packed"]
    assert op.variants[1].literals == {"packed": "gate_up"}


def test_a_parameter_keyword_is_no_literal(tfr):
    (variant,) = rules.load()["demo_rope"].variants
    assert variant.literals == {} and variant.named == {"unsqueeze_dim": "dim"}


def test_schemas_declare_their_keywords(tfr):
    missing = {op.name: set(op.keywords) - op.declared for op in rules.load().values()}
    assert not any(missing.values()), missing


def test_helper_calls_get_no_modules(tfr):
    """What a helper is called with by default must be what it was called with: tensors."""
    for op in rules.load().values():
        for v in op.variants:
            kinds = v.function.__annotations__
            given = [p for p in v.positional if isinstance(p, str)]
            if v.named and v.fallback == f"via({', '.join(given)})":
                modules = [p for p in given if kinds.get(p) in (rules.Norm, rules.Linear)]
                assert not modules, f"{op.name}/{v.name}: needs a fallback="


def test_add_twice_is_once(tfr, request):
    before = rules.directories()
    rules.add(request.path.parent / "demo_rules")
    assert rules.directories() == before


def test_annotations_take_dimensions():
    assert rules.Param["D"] is rules.Param


HEAD = "from tfrewrite.rules import op, ref, siblings\n"
OP = "op('broken(Tensor x, *, str how) -> Tensor')\n"
FAULTS = {
    "no schema": ("@ref('broken(x)')\ndef f(x): return x\n", "no op('broken(...)') before it"),
    "schema": ("op('what is this')\n", "is not `name(arguments) -> result`"),
    "syntax of the call": (OP + "@ref('broken(x')\ndef f(x): return x\n", "not Python"),
    "not a call": (OP + "@ref('broken')\ndef f(x): return x\n", "not a call such as"),
    "unknown argument": (
        OP + "@ref('broken(y)')\ndef f(x): return x\n",
        "neither a parameter of f",
    ),
    "forgotten parameter": (OP + "@ref('broken(x)')\ndef f(x, y): return x\n", "does not give y"),
    "keyword that is neither": (OP + "@ref('broken(x, how=1+x)')\ndef f(x): return x\n", "how= is"),
    "via in the call": (
        OP + "@ref('broken(x, via=x)')\ndef f(x): return x\n",
        "via= and inner= cannot",
    ),
    "inner that is not called": (
        OP + "@ref('broken(x)', inner='g')\ndef f(x): return x\n",
        "f does not call inner='g' itself",
    ),
    "same call twice": (
        OP + "@ref('broken(x)')\ndef f(x): return x\n@ref('broken(y)')\ndef g(y): return y\n",
        "cannot be told from",
    ),
    "same name twice": (
        OP
        + "@ref('broken(x)')\ndef f(x): return x\n"
        + "@ref('broken(x, how=\"a\")')\ndef f(x): return x\n",
        "already has a reference of that name",
    ),
    "fallback without via": (
        OP + "@ref('broken(x)', fallback='x + 1')\ndef f(x): return x\n",
        "must call via",
    ),
    "fallback with a foreign name": (
        OP + "@ref('broken(x)', fallback='via(z)')\ndef f(x): return x\n",
        "use nothing but",
    ),
    "reserved parameter": (OP + "@ref('broken(via)')\ndef f(via): return via\n", "called via"),
    "star outside siblings": (OP + "@ref('broken(*x)')\ndef f(*x): return x\n", "must be the last"),
    "fault while running": ("1 / 0\n", "ZeroDivisionError"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faulty_file(kind, tmp_path, tfr):
    text, message = FAULTS[kind]
    (tmp_path / f"faulty_{kind.replace(' ', '_')}.py").write_text(HEAD + text)
    before = rules.directories()
    with pytest.raises(rules.RuleError) as caught:
        rules.add(tmp_path)
    assert message in str(caught.value)
    assert "faulty_" in str(caught.value), "the message names the file"
    assert rules.directories() == before


def test_same_op_in_two_files(tmp_path, tfr):
    (tmp_path / "second_mul.py").write_text(HEAD + "op('demo_mul(Tensor x) -> Tensor')\n")
    with pytest.raises(rules.RuleError, match="op demo_mul is already in .*demo_mul.py"):
        rules.add(tmp_path)


def test_same_file_name_twice(tmp_path, tfr):
    (tmp_path / "demo_mul.py").write_text(HEAD)
    with pytest.raises(rules.RuleError, match="a rule file of that name is in"):
        rules.add(tmp_path)


def test_no_such_directory(tmp_path):
    with pytest.raises(rules.RuleError, match="no such directory"):
        rules.add(tmp_path / "missing")


def test_package_imports_no_torch():
    code = "import sys, tfrewrite; tfrewrite.enable; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
