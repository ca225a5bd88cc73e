"""The list of candidates is what candidates.py finds; coverage does not fall; docs/COVERAGE.md is
current."""

import ast
import json
from types import SimpleNamespace

import candidates
import corpus
import coverage
import pytest

RMS_NORM = """
class Scale(nn.Module):
    def __init__(self, n):
        self.weight = nn.Parameter(torch.ones(n))
    def forward(self, x{more}):
        v = x.float().pow(2).mean(-1, keepdim=True)
        y = x * torch.{root}(v + 1e-6)
        return {result}
"""
LAYER = """
class Norm(nn.LayerNorm):
    pass
class Part(nn.Module):
    def __init__(self, c):
        self.a, self.act = nn.Linear(4, 4), ACT2FN[c.act]
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 8)
        self.first = self.second = self.norm = nn.LayerNorm(4)
        self.a = nn.Linear(4, 4)
        self.act = ACT2FN[c.act]
    def forward(self, x, y):
{body}
"""
ROTATE = """
def turn(x):
    a, b = x.chunk(2, -1)
    return torch.cat(({first}, {second}), -1)
def spin(x, cos, sin):
    return x * cos + turn(x) * sin
class Part(nn.Module):
    def forward(self, x, cos, sin):
        return spin(x, cos, sin)
"""


def found(text, cls, family):
    return [kind for _, kind in candidates.census(text).get(cls, {}).get(family, [])]


def norm(root="rsqrt", result="self.weight * y", more=""):
    return RMS_NORM.format(root=root, result=result, more=more)


def body(*lines):
    return LAYER.format(body="\n".join("        " + line for line in lines))


def test_norms_are_seen_by_their_computation():
    assert found(norm(), "Scale", "rms_norm") == ["rms"]
    assert found(norm(root="exp"), "Scale", "rms_norm") == []
    assert found(norm().replace("pow(2)", "pow(3)"), "Scale", "rms_norm") == []
    centred = norm().replace("v = x", "x = x - x.mean(-1, keepdim=True)\n        v = x")
    assert found(centred, "Scale", "rms_norm") == []
    gated = norm(result="self.weight * y * F.silu(gate)", more=", gate")
    assert found(gated, "Scale", "gated_norm") == ["rms"]
    assert found(gated, "Scale", "rms_norm") == []


def test_glu_is_an_activation_of_one_projection_times_another():
    assert found(body("return self.act(self.a(x)) * self.b(x)"), "Part", "glu") == ["two"]
    packed = body("g, u = self.c(x).chunk(2, -1)", "return u * self.act(g)")
    assert found(packed, "Part", "glu") == ["packed"]
    for other in ("self.act(self.a(x)) + self.b(x)", "self.a(x) * self.b(x)", "self.act(x) * y"):
        assert found(body("return " + other), "Part", "glu") == [], other


def test_projections_have_one_input_under_one_condition():
    two = body("return torch.softmax(self.a(x) @ self.b(x), -1)")
    assert found(two, "Part", "projections") == ["attention:a,b"]
    assert found(two.replace("self.b(x)", "self.b(y)"), "Part", "projections") == []
    assert found(two.replace("softmax", "tanh"), "Part", "projections") == ["other:a,b"]
    apart = body(
        "p = self.a(x)", "if y is None:", "    return p", "else:", "    q = self.b(x)", "return q"
    )
    assert found(apart, "Part", "projections") == []


def test_a_softcap_is_a_tanh_of_a_quotient_times_something():
    assert found(body("return torch.tanh(x / 3) * 3"), "Part", "softcap") == ["inline"]
    for other in ("torch.tanh(x / 3)", "torch.tanh(x * 3) * 3", "torch.sigmoid(x / 3) * 3"):
        assert found(body("return " + other), "Part", "softcap") == [], other


def test_rotation_is_seen_in_the_body_of_what_is_called():
    assert found(ROTATE.format(first="-b", second="a"), "Part", "rope") == ["spin"]
    assert found(ROTATE.format(first="b", second="-a"), "Part", "rope") == ["spin"]
    assert found(ROTATE.format(first="b", second="a"), "Part", "rope") == []


def test_residual_is_a_sum_that_is_used_again():
    pre = body("x = x + y", "z = self.norm(x)", "return x + z")
    assert found(pre, "Part", "residual") == ["layer"]
    assert found(body("return self.norm(x + y)"), "Part", "residual") == []
    assert found(body("z = self.norm(x)", "return x + z"), "Part", "residual") == []


def test_judging_needs_the_right_op_at_the_right_place():
    rows = {"A": {"glu": [[10, "two"]], "gated_norm": [[3, "rms"]], "rope": [[20, "spin"]]}}
    rows["A"]["projections"] = [[30, "attention:q,k"]]
    place = {"class": "A", "function": "forward", "count": 1}

    def reasons(*fused, refused=()):
        entry = {
            "fused": [{**place, **f} for f in fused],
            "refused": [{**place, **r} for r in refused],
        }
        return {key[1]: reason for key, reason in coverage.judge(rows, entry).items()}

    assert set(reasons().values()) == {coverage.SILENT}
    at = {"line": 9, "end_line": 11}
    assert reasons({"op": "act_mul", **at})["glu"] is None
    assert reasons({"op": "act_mul", "line": 40, "end_line": 41})["glu"] == coverage.SILENT
    assert reasons({"op": "linears", **at})["glu"] == coverage.SILENT
    assert reasons({"op": "rms_norm", "line": 3, "end_line": 3})["gated_norm"] == coverage.SILENT
    assert reasons({"op": "rope", "class": "", "function": "spin", **at})["rope"] is None
    beside = {"op": "rope", "class": "", "function": "around", "line": 20, "end_line": 20}
    assert reasons(beside)["rope"] is None
    assert reasons({**beside, "line": 19, "end_line": 19})["rope"] == coverage.SILENT
    elsewhere = {"op": "linears", "line": 40, "end_line": 41}
    assert reasons(elsewhere)["projections"] == coverage.SILENT
    assert reasons({**elsewhere, "function": "project"})["projections"] is None
    near = {"op": "act_mul", "line": 10, "block_line": 9, "block_end_line": 10, "reason": "needs x"}
    assert reasons(refused=[near])["glu"] == "needs x"


def test_norms_in_functions_are_judged_by_the_calls():
    text = "class A:\n    def f(self, q):\n        return turn(\n            q)\ndef turn(q):\n    return unit(q)\n"
    rows = {
        "": {"rms_norm": [[6, "function:turn"], [20, "function:unit"]]},
        "A": {"rms_norm": [[4, "inline:l2"]]},
    }

    def fused(*lines):
        entry = {"op": "l2_norm", "class": "", "function": "turn", "count": 1}
        entries = {
            "fused": [{**entry, "line": n, "end_line": n} for n in lines],
            "refused": [],
        }
        judged = coverage.judge(rows, entries, coverage.calls_in(text))
        return {kind for (_, _, _, kind), reason in judged.items() if not reason}

    assert fused() == set()
    assert fused(6) == {"function:turn", "function:unit", "inline:l2"}
    assert fused(20) == {"function:unit"}
    text += "\n\n\ny = unit(3)\n"  # a call that is not fused
    assert fused(6) == {"function:turn", "inline:l2"}


def test_helpers_are_judged_by_the_functions_that_they_call():
    text = "def parts(x):\n    return [spin(p) for p in x]\ndef other(x):\n    return x + 1\n"
    fused = {"op": "rope", "class": "", "function": "spin", "line": 1, "end_line": 2}

    def left(*functions, refused=()):
        keys = [("A", "rope", 30 + i, f) for i, f in enumerate(functions)]
        judged = dict.fromkeys(keys, coverage.SILENT)
        entry = {"fused": [fused], "refused": list(refused)}
        coverage.through_helpers(judged, entry, ast.parse(text))
        return [kind for (_, _, _, kind), reason in judged.items() if reason]

    assert left("parts") == []
    assert left("other", "elsewhere") == ["other", "elsewhere"]
    for function in ("parts", "spin"):
        assert left("parts", refused=[{"class": "", "function": function}]) == ["parts"]
    fused["op"] = "rms_norm"
    assert left("parts") == ["parts"]


def test_norms_in_methods_are_judged_by_the_calls():
    text = "class A:\n    def forward(self, x):\n        return self.norm(x), self.scale(x)\n"
    fused = {"op": "l2_norm", "class": "A", "function": "norm", "line": 9, "end_line": 9}

    def reason(line=3, **other):
        key = ("A", "rms_norm", line, "inline:rms")
        judged = {key: coverage.SILENT}
        entry = {"fused": [{**fused, **other}]}
        coverage.through_methods(judged, entry, ast.parse(text))
        return judged[key]

    assert reason() is None
    for other in ({"line": 2}, {"function": "other"}, {"class": "B"}, {"op": "linears"}):
        line = other.pop("line", 3)
        assert reason(line, **other) == coverage.SILENT


def test_worse_figures_are_named():
    row = {"all": 5, "fused": 3, "refused": 1, "silent": 1}
    old = {"columns": {"glu": row}, "causal": {"glu": [2, 4]}}
    assert coverage.worse(old, old) == []
    lost = {"columns": {"glu": {**row, "fused": 2, "silent": 2}}, "causal": {"glu": [1, 4]}}
    assert len(coverage.worse(old, lost)) == 3


@pytest.fixture(scope="session")
def now():
    folder = corpus.models_dir()
    table = json.loads(candidates.list_path().read_text())
    found, files = coverage.measure(table, coverage.report(folder)), coverage.causal_files(folder)
    return SimpleNamespace(table=table, found=found, files=files)


def test_list_is_current():
    """Renew with candidates.py --write and review the diff."""
    text = corpus.dump(candidates.census_files(corpus.models_dir()))
    assert candidates.list_path().read_text() == text


def test_coverage_does_not_fall(now):
    """Candidates without a reason are counted; their number may only shrink. Renew with
    coverage.py --write."""
    old = json.loads(coverage.recorded_path().read_text())
    lines = coverage.worse(old, coverage.recorded(now.found, now.files))
    assert not lines, "\n".join(lines)


def test_document_is_current(now):
    """Renew with coverage.py --markdown > docs/COVERAGE.md."""
    path = corpus.HERE.parents[1] / "docs" / "COVERAGE.md"
    assert path.read_text() == coverage.markdown(now.found, now.files, now.table)
