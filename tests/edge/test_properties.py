"""Generated programs: respellings must keep the match, changed programs must keep their numbers.

A block is kept as statements of one operation each. `respelled` writes it in a random order, with
random names, joined and split, commented, with unrelated statements between. `changed` puts writes,
branches, other constants and early returns into it; then nothing is asked of the report, but
original and result must compute the same bits.
TFR_EXAMPLES=5000 runs longer, with new programs every time.
"""

from __future__ import annotations

import os
import random
import re
import textwrap
from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from edge_driver import Fault, check_bytes, check_runs, check_second_run, rewrite_with_binary
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("TFR_EXAMPLES", "0"))
SETTINGS = settings(
    max_examples=EXAMPLES or 15,
    derandomize=not EXAMPLES,  # the same programs in every run of the tests
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

LOG = []


def touch(t):
    t.mul_(2)
    return t


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class Norm(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-3

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-3
        self.act = nn.SiLU()
        self.flag = True
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        self.down = nn.Linear(8, 8)
        self.q = nn.Linear(8, 16)
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 8)
        self.norm = Norm(8)
        self.q_norm = Norm(8)
        self.k_norm = Norm(8)

    def forward(self, PARAMETERS):
BODY

def cases(dtype):
    with torch.no_grad():
        for scale in (1.0, -0.3):
            block = Block().to(dtype)
            given = [torch.randn(SHAPE, dtype=dtype) * scale for SHAPE in SHAPES]
            yield lambda: block(*given)
            yield given, LOG, [p.detach() for p in block.parameters()], block.eps
        yield [block.flag, len(LOG)]
"""


@dataclass(frozen=True)
class Line:
    targets: tuple[str, ...]
    expression: str  # names of values in braces

    def uses(self) -> list[str]:
        return re.findall(r"\{(\w+)\}", self.expression)


@dataclass(frozen=True)
class Template:
    parameters: tuple[str, ...]
    shapes: str
    lines: tuple[Line, ...]
    result: tuple[str, ...]
    ops: dict


def template(parameters: str, shapes: str, text: str, result: str, ops: dict) -> Template:
    lines = []
    for line in textwrap.dedent(text).strip().splitlines():
        targets, expression = line.split(" = ", 1)
        lines.append(Line(tuple(targets.split(", ")), expression))
    return Template(
        tuple(parameters.split(", ")),
        shapes,
        tuple(lines),
        tuple(result.split(", ")),
        {"rms_norm": 1, **ops},
    )


TEMPLATES = {
    "norm": template(
        "x",
        "[(3, 8, 8)]",
        """
        dtype = {x}.dtype
        h = {x}.to(torch.float32)
        s = {h}.pow(2)
        v = {s}.mean(-1, keepdim=True)
        e = {v} + self.eps
        r = torch.rsqrt({e})
        n = {h} * {r}
        c = {n}.to({dtype})
        y = self.weight * {c}
        """,
        "y",
        {"rms_norm": 2},
    ),
    "mlp": template(
        "x",
        "[(3, 8, 8)]",
        """
        g = self.gate({x})
        a = self.act({g})
        u = self.up({x})
        p = {a} * {u}
        y = self.down({p})
        """,
        "y",
        {"linears": 1, "act_mul": 1},
    ),
    "layer": template(
        "x, r",
        "[(3, 8, 8), (3, 8, 8)]",
        """
        a = self.down({x})
        s = {r} + {a}
        n = self.norm({s})
        g = self.gate({n})
        b = F.silu({g})
        u = self.up({n})
        p = {b} * {u}
        y = {s} + {p}
        """,
        "y, s",
        {"linears": 1, "act_mul": 1, "add_rms_norm": 1},
    ),
    "attention": template(
        "x, cos, sin",
        "[(2, 8, 8), (2, 8, 8), (2, 8, 8)]",
        """
        shape = (2, 8, -1, 8)
        q0 = self.q({x})
        q1 = {q0}.view({shape})
        q2 = self.q_norm({q1})
        q3 = {q2}.transpose(1, 2)
        k0 = self.k({x})
        k1 = {k0}.view({shape})
        k2 = self.k_norm({k1})
        k3 = {k2}.transpose(1, 2)
        v0 = self.v({x})
        v1 = {v0}.view({shape})
        v2 = {v1}.transpose(1, 2)
        q4, k4 = apply_rotary_pos_emb({q3}, {k3}, {cos}, {sin})
        """,
        "q4, k4, v2",
        {"linears": 1, "qk_norm_rope": 1},
    ),
}

# Names a file may use for its own values; several are those that a rewriter would like to use.
NAMES = (
    "a b c d e f g h i j k m n o p q r s t u v w x y z l O _ _tmp x1 x2 cos sin gate up out result"
    " hidden_states residual variance key_states value_states query_states normed summed q_proj"
    " ops rms_norm linears tfr_ tfr2 k_proj über 値"
).split()
UNRELATED = (
    "pass",
    "{new} = {tensor}.shape[0] * 2",
    "{new} = ('text', 3)",
    "{new} = [1, 2, 3]",
    "'a string'",
    "{new} = len({tensor}.shape)",
    "{new} = self.flag",
    "{new} = {tensor}.dtype",
    "{new} = {tensor} + 1",
    "{new} = {tensor}.sum()",
)
CHANGES = (
    "{tensor}.mul_(1.5)",
    "{tensor}[..., 0] = 2",
    "{tensor} += 1",
    "{tensor} *= {other}",
    "{tensor} = {tensor} * 2",
    "{tensor} = -{tensor}",
    "{tensor}.view(-1).add_(1)",
    "{new} = {tensor}.reshape(-1)\n{new}[3] = 7",
    "{new} = {tensor}\n{new}.sub_(0.5)",
    "{new} = {tensor}\n{new} += 1",
    "{new} = [{tensor}, {other}]\nfor {new2} in {new}:\n    {new2}.mul_(0.5)",
    "if {tensor}.sum() > 0:\n    {tensor} = {tensor} - 1",
    "if {tensor}.sum() > 0:\n    {tensor}.neg_()",
    "if {tensor}.sum() > 0:\n    return {tensor}",
    "if self.flag:\n    {tensor} = {tensor} + {other}\nelse:\n    {tensor} = {other}",
    "if {tensor}.sum() > 0:\n    raise ValueError",
    "for {new} in range(2):\n    {tensor} = {tensor} + 1",
    "while {tensor}.sum() > 0:\n    {tensor} = {tensor} - 5",
    "{tensor}, {other} = {other}, {tensor}",
    "{new} = {other} = {tensor}",
    "del {tensor}",
    "with torch.no_grad():\n    {tensor}.add_(1)",
    "try:\n    {tensor}.mul_(2)\nfinally:\n    LOG.append(1)",
    "try:\n    {tensor} = {tensor}.no_such_attribute\nexcept AttributeError:\n    {tensor} = {other}",
    "(lambda t: t.mul_(2))({tensor})",
    "touch({tensor})",
    "{tensor} = touch({other})",
    "torch.relu_({tensor})",
    "F.relu({tensor}, inplace=True)",
    "torch.add({tensor}, 1, out={tensor})",
    "{tensor}.copy_({other})",
    "{tensor} = {tensor}.double()",
    "{tensor} = {tensor}.to(torch.bfloat16)",
    "{tensor} = {tensor}.transpose(0, 1)",
    "{tensor} = {tensor}.detach().clone()",
    "LOG.append({tensor})",
    "LOG.append({tensor}.clone())",
    "LOG.append(sorted(locals()))",
    "LOG.append([t * 2 for t in {tensor}])",
    "{new} = lambda: {tensor} * 2\nLOG.append({new}())",
    "def {new}():\n    nonlocal {tensor}\n    {tensor} = {tensor} + 1\n{new}()",
    "def {new}(held={tensor}):\n    held.mul_(3)\n{new}()",
    "self.eps = self.eps * 100",
    "self.weight.data.mul_(2)",
    "self.gate.weight.data.neg_()",
    "self.k.bias.zero_()",
    "self.gate, self.up = self.up, self.gate",
    "self.v = self.k",
    "self.act = nn.Tanh()",
    "self.norm.eps = 0.9",
    "self.k_norm = self.q_norm",
    "self.up = nn.Identity()",
    "self.flag = {tensor} is {other}",
    "setattr(self, 'eps', 0.7)",
    "exec('{tensor}.mul_(2)')",
    "{new} = ({new2} := {tensor}).mul_(2)",
    "{new}, *{new2} = {tensor}, {other}, {tensor}\n{new2}[1].zero_()",
    "{tensor}: torch.Tensor = {tensor} / 2",
    "{tensor} = {tensor} if self.flag else {other}",
    "{tensor} = torch.rand_like({tensor}) + {tensor}",
    "match {tensor}:\n    case {other}:\n        pass",
)
OTHER_TEXT = (
    (r"self\.eps", "1e-2"),
    (r"self\.eps", "-self.eps"),
    (r"\+ self\.eps", "- self.eps"),
    (r"self\.eps", "self.norm.eps"),
    (r"-1, keepdim", "1, keepdim"),
    (r"-1, keepdim", "-2, keepdim"),
    (r"-1, keepdim", "(-1, -2), keepdim"),
    (r"keepdim=True", "keepdim=False"),
    (r"pow\(2\)", "pow(3)"),
    (r"pow\(2\)", "abs()"),
    (r"rsqrt", "sqrt"),
    (r"torch\.float32", "torch.float64"),
    (r"torch\.float32", "torch.bfloat16"),
    (r"\{h\} \* \{r\}", "{h} / {r}"),
    (r"\{h\} \* \{r\}", "{s} * {r}"),
    (r"self\.weight \*", "(1 + self.weight) *"),
    (r"self\.weight \*", "self.weight +"),
    (r"\{(a|b)\} \* \{u\}", r"{\1} + {u}"),
    (r"\{(a|b)\} \* \{u\}", r"{u} * {\1}"),
    (r"\{(a|b)\} \* \{u\}", r"{\1} * {\1}"),
    (r"\{(a|b)\} \* \{u\}", r"-{\1} * {u}"),
    (r"\{(a|b)\} \* \{u\}", r"{\1} ** 2 * {u}"),
    (r"\{(a|b)\} \* \{u\}", r"{\1} * {u}[..., :1]"),
    (r"self\.up", "self.gate"),
    (r"self\.act", "self.norm"),
    (r"F\.silu", "F.gelu"),
    (r"\{r\} \+ \{a\}", "{r} - {a}"),
    (r"\{r\} \+ \{a\}", "{r} + {a} * 0.5"),
    (r"\{r\} \+ \{a\}", "{a} + {r} + {x}"),
    (r"transpose\(1, 2\)", "transpose(2, 1)"),
    (r"transpose\(1, 2\)", "permute(0, 2, 1, 3)"),
    (r"transpose\(1, 2\)", "flip(0).transpose(1, 2)"),
    (r"\{q3\}, \{k3\}", "{k3}, {q3}"),
    (r"\{q3\}, \{k3\}", "{q3}, {q3}"),
    (r"\{cos\}, \{sin\}", "{sin}, {cos}"),
    (r"\{cos\}, \{sin\}", "{cos}, {sin}, unsqueeze_dim=1"),
    (r"k_norm", "q_norm"),
    (r"self\.k\(\{x\}\)", "self.k({x} * 2)"),
    (r"self\.v\(\{x\}\)", "self.v({x}.mul_(2))"),
    (r"self\.up\(\{(\w+)\}\)", r"self.up({\1}.add_(1))"),
)


def dependencies(lines: list[Line]) -> list[set[int]]:
    made = {target: number for number, line in enumerate(lines) for target in line.targets}
    return [{made[name] for name in line.uses() if name in made} for line in lines]


def some_order(draw, lines: list[Line]) -> list[Line]:
    """Any order in which every value is made before it is used."""
    needs, left, order = dependencies(lines), set(range(len(lines))), []
    while left:
        ready = sorted(n for n in left if not needs[n] & left)
        chosen = draw(st.sampled_from(ready))
        left.remove(chosen)
        order.append(lines[chosen])
    return order


def joined(draw, lines: list[Line], result: tuple[str, ...]) -> list[Line]:
    """Some values that are used once are written where they are used."""
    count = Counter(name for line in lines for name in line.uses()) + Counter(result)
    lines = list(lines)
    for name in sorted({t for line in lines for t in line.targets}):
        maker = next(n for n, line in enumerate(lines) if name in line.targets)
        if (
            count[name] != 1
            or name in result
            or len(lines[maker].targets) > 1
            or not draw(st.booleans())
        ):
            continue
        value = "(" + lines[maker].expression + ")"
        del lines[maker]
        lines = [
            Line(line.targets, line.expression.replace("{" + name + "}", value)) for line in lines
        ]
    return lines


class Writer:
    """Writes lines as source under random names."""

    def __init__(self, draw, shape: Template):
        self.draw = draw
        every = [*shape.parameters, *(t for line in shape.lines for t in line.targets)]
        names = list(NAMES)
        random.Random(draw(st.integers(0, 1000))).shuffle(names)
        self.names = dict(zip(every, names))
        self.free = list(names[len(every) :])
        self.out: list[str] = []
        self.defined = list(shape.parameters)

    def fresh(self) -> str:
        return self.free.pop()

    def expression(self, text: str) -> str:
        def name(found):
            word = self.names[found.group(1)]
            return f"({word})" if self.draw(st.integers(0, 5)) == 5 else word

        text = re.sub(r"\{(\w+)\}", name, text)
        return f"({text})" if self.draw(st.integers(0, 5)) == 5 else text

    def line(self, line: Line) -> None:
        value = self.expression(line.expression)
        target = ", ".join(self.names[t] for t in line.targets)
        kind = self.draw(st.integers(0, 9))
        if kind == 6 and len(line.targets) == 1:
            self.out.append(f"{target}: torch.Tensor = {value}")
        elif kind == 7 and len(line.targets) == 1 and self.free:
            other = self.fresh()
            self.out += [f"{other} = {value}", f"{target} = {other}"]
        elif kind == 8:
            self.out.append(f"{target} = {value}  # made here")
        elif kind == 9:
            self.out += [f"{target} = (", f"    {value}", ")"]
        else:
            self.out.append(f"{target} = {value}")
        self.defined += line.targets

    def insert(self, text: str, tensors: list[str]) -> None:
        if len(self.free) < 2 or not tensors:
            return
        pick = st.sampled_from(tensors)
        words = {
            "tensor": self.names[self.draw(pick)], "other": self.names[self.draw(pick)],
            "new": self.fresh(), "new2": self.fresh(),
        }  # fmt: skip
        self.out += re.sub(r"\{(\w+)\}", lambda m: words[m.group(1)], text).splitlines()

    def module(self, shape: Template) -> str:
        result = ", ".join(self.names[name] for name in shape.result)
        body = [*self.out, f"return {result}"]
        return (
            HEAD.replace("PARAMETERS", ", ".join(self.names[p] for p in shape.parameters))
            .replace("BODY\n", textwrap.indent("\n".join(body), " " * 8) + "\n\n")
            .replace("SHAPES", shape.shapes)
            .replace("SHAPE", "shape")
        )


TENSORS = {"norm": "x h s v e r n c y", "mlp": "x g a u p y", "layer": "x r a s n g b u p y"}
TENSORS["attention"] = "x cos sin q0 q1 q2 q3 k0 k1 k2 k3 v0 v1 v2 q4 k4"


@st.composite
def respelled(draw, which: str) -> str:
    shape = TEMPLATES[which]
    writer = Writer(draw, shape)
    for line in joined(draw, some_order(draw, list(shape.lines)), shape.result):
        if draw(st.integers(0, 4)) == 4:
            # Of inputs only: a middle value that is read elsewhere is a reason to leave the block.
            writer.insert(draw(st.sampled_from(UNRELATED)), list(shape.parameters))
        if draw(st.integers(0, 6)) == 6:
            writer.out.append("# a comment of its own")
        if draw(st.integers(0, 8)) == 8:
            writer.out.append("")
        writer.line(line)
    return writer.module(shape)


@st.composite
def changed(draw, statement: str | None, replace: tuple[str, str] | None) -> str:
    """A block with `statement` at a random place, or with one expression replaced."""
    fitting = [
        name
        for name, shape in TEMPLATES.items()
        if replace is None or any(re.search(replace[0], line.expression) for line in shape.lines)
    ]
    which = draw(st.sampled_from(fitting))
    shape = TEMPLATES[which]
    lines = some_order(draw, list(shape.lines)) if draw(st.booleans()) else list(shape.lines)
    if replace:
        spots = [n for n, line in enumerate(lines) if re.search(replace[0], line.expression)]
        spot = draw(st.sampled_from(spots))
        line = Line(lines[spot].targets, re.sub(*replace, lines[spot].expression))
        made = {target for before in lines[:spot] for target in before.targets}
        if set(line.uses()) <= made.union(shape.parameters):
            lines[spot] = line
    if draw(st.booleans()):
        lines = joined(draw, lines, shape.result)
    writer = Writer(draw, shape)
    # Mostly in the middle of the block: before it and after it a change is no danger.
    spot = draw(st.integers(1, len(lines))) if statement else -1
    second = 4 * len(lines) - draw(st.integers(0, 4 * len(lines)))
    for number, line in enumerate([*lines, None]):
        live = [name for name in writer.defined if name in TENSORS[which].split()]
        if number == spot:
            writer.insert(statement, live)
        if number == second:
            writer.insert(draw(st.sampled_from(CHANGES)), live)
        if line:
            writer.line(line)
    return writer.module(shape)


def count_fused(report: dict) -> dict:
    """Of the classes; a helper that no block calls is fused where it stands."""
    counts: Counter = Counter()
    for entry in report["fused"]:
        if entry["class"]:
            counts[entry["op"]] += entry["count"]
    return dict(counts)


@pytest.mark.parametrize("which", TEMPLATES)
def test_respelling_keeps_the_match(which):
    @SETTINGS
    @given(respelled(which))
    def check(text):
        data = text.encode()
        out = rewrite_with_binary(data)
        assert out.code == 0, out.stderr
        if count_fused(out.report) != TEMPLATES[which].ops:
            raise Fault(f"fused {out.report['fused']}, refused {out.report['refused']} in\n{text}")
        check_bytes(data, out)
        check_second_run(out, rewrite_with_binary(out.text))
        for dtype in (torch.float32, torch.bfloat16):
            check_runs(data, out.text, dtype)

    check()


def check_changed(statement, replace) -> None:
    @settings(SETTINGS, max_examples=EXAMPLES or 5)
    @given(changed(statement, replace), st.sampled_from([torch.float32, torch.bfloat16]))
    def check(text, dtype):
        data = text.encode()
        try:
            compile(data, "generated", "exec")
        except (
            SyntaxError
        ):  # two changes may not go together, as a nonlocal parameter that is annotated
            return
        out = rewrite_with_binary(data)
        assert out.code == 0, out.stderr
        try:
            check_bytes(data, out)
            if out.text != data:
                check_second_run(out, rewrite_with_binary(out.text))
                check_runs(data, out.text, dtype)
        except Fault as fault:
            raise Fault(f"{fault} in\n{text}\nwhich became\n{out.text.decode()}") from fault

    check()


@pytest.mark.parametrize("statement", CHANGES)
def test_statement_put_in(statement):
    check_changed(statement, None)


@pytest.mark.parametrize("replace", OTHER_TEXT, ids=lambda pair: pair[1])
def test_expression_replaced(replace):
    check_changed(None, replace)
