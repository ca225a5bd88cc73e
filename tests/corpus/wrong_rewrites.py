"""Seeds wrong rewrites in true ones: every kind is a function that finds its places in a rewritten
text and says what would stand there instead. `EQUAL` changes a text without changing what it does.

Knows Python's syntax and the names of the ops; nothing of how the program compares.
"""

import ast
import re
from collections.abc import Callable, Iterator

Edit = tuple[int, int, str]  # bytes [start, end) become the text


class Text:
    """A rewritten file: its tree, and offsets into its bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.tree = data, ast.parse(data)
        self.starts = [0]
        for line in data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.parent = {c: n for n in ast.walk(self.tree) for c in ast.iter_child_nodes(n)}
        every = [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)]
        self.changed = [f for f in every if any(self.is_op(n) for n in ast.walk(f))]
        self.forwards = self.changed + [
            f for f in every if f.name == "forward" and f not in self.changed
        ]

    @staticmethod
    def is_op(n: ast.AST) -> bool:
        return (
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and isinstance(n.func.value, ast.Name)
            and n.func.value.id == "tfr"
        )

    def ops(self, *names: str) -> Iterator[ast.Call]:
        for f in self.changed:
            for n in ast.walk(f):
                if self.is_op(n) and (not names or n.func.attr in names):
                    yield n

    def inside(self, kind: type) -> Iterator:
        """Nodes of that kind in forward methods, those with an op first."""
        for f in self.forwards:
            for statement in f.body:
                yield from (n for n in ast.walk(statement) if isinstance(n, kind))

    def span(self, n: ast.AST) -> tuple[int, int]:
        return (
            self.starts[n.lineno - 1] + n.col_offset,
            self.starts[n.end_lineno - 1] + n.end_col_offset,
        )

    def text(self, n: ast.AST) -> str:
        start, end = self.span(n)
        return self.data[start:end].decode()

    def put(self, n: ast.AST, text: str) -> Edit:
        return (*self.span(n), text)

    def swap(self, a: ast.AST, b: ast.AST) -> list[Edit]:
        return [self.put(a, self.text(b)), self.put(b, self.text(a))]

    def lines(self, n: ast.stmt) -> tuple[int, int]:
        """Whole lines of a statement."""
        return self.starts[n.lineno - 1], self.starts[n.end_lineno]

    def indent(self, n: ast.stmt) -> str:
        return " " * n.col_offset

    def before(self, n: ast.stmt, text: str) -> Edit:
        at = self.lines(n)[0]
        return (at, at, self.indent(n) + text + "\n")

    def after(self, n: ast.stmt, text: str) -> Edit:
        at = self.lines(n)[1]
        return (at, at, self.indent(n) + text + "\n")

    def statement(self, n: ast.AST) -> ast.stmt:
        while not isinstance(n, ast.stmt):
            n = self.parent[n]
        return n

    def function(self, n: ast.AST) -> ast.FunctionDef:
        while not isinstance(n, ast.FunctionDef):
            n = self.parent[n]
        return n

    def apply(self, edits: list[Edit]) -> bytes:
        data = self.data
        for start, end, text in sorted(edits, reverse=True):
            data = data[:start] + text.encode() + data[end:]
        return data


Kind = Callable[[Text], Iterator[list[Edit]]]
WRONG: dict[str, Kind] = {}
EQUAL: dict[str, Kind] = {}


def wrong(kind: Kind) -> Kind:
    WRONG[kind.__name__] = kind
    return kind


def equal(kind: Kind) -> Kind:
    EQUAL[kind.__name__] = kind
    return kind


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def literal(name: str, values: dict[str, str]) -> Kind:
    def kind(t: Text) -> Iterator[list[Edit]]:
        for call in t.ops():
            value = keyword(call, name)
            if value is not None and t.text(value) in values:
                yield [t.put(value, values[t.text(value)])]

    return kind


def method_call(n: ast.AST, *names: str) -> bool:
    return isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in names


# ------------------------------------------------------------------ the calls of the ops
@wrong
def results_swapped(t):
    for call in t.ops():
        assign = t.parent[call]
        if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Tuple):
            yield t.swap(*assign.targets[0].elts[:2])


@wrong
def operands_of_add_rms_norm_swapped(t):
    for call in t.ops("add_rms_norm"):  # the results come in the other order with it
        target = t.parent[call].targets[0]
        yield t.swap(*target.elts[:2])


@wrong
def gate_and_up_swapped(t):
    for call in t.ops("act_mul"):
        if len(call.args) == 3:
            yield t.swap(call.args[1], call.args[2])


@wrong
def modules_swapped(t):
    for call in t.ops("linears"):
        yield t.swap(call.args[1], call.args[2])


@wrong
def module_twice(t):
    for call in t.ops("linears"):
        yield [t.put(call.args[2], t.text(call.args[1]))]


@wrong
def module_of_another_name(t):
    for call in t.ops("linears"):
        yield [t.put(call.args[1], "self.another_proj")]


@wrong
def input_is_another(t):
    for call in t.ops("linears"):
        yield [t.put(call.args[0], t.text(call.args[0]) + ".detach()")]


@wrong
def query_and_key_swapped(t):
    for call in t.ops("rope", "qk_norm_rope"):
        yield t.swap(call.args[0], call.args[1])


@wrong
def cos_and_sin_swapped(t):
    for call in t.ops("rope"):
        if len(call.args) == 4:
            yield t.swap(call.args[2], call.args[3])


@wrong
def norms_swapped(t):
    for call in t.ops("qk_norm_rope"):
        yield t.swap(call.args[2], call.args[3])


@wrong
def norm_of_another_name(t):
    for call in t.ops("add_rms_norm"):
        yield [t.put(call.args[2], "self.another_layernorm")]


@wrong
def activation_is_another(t):
    for call in t.ops("act_mul"):
        yield [t.put(call.args[0], "torch.tanh")]


@wrong
def eps_is_a_number(t):
    for call in t.ops("rms_norm"):
        if len(call.args) == 3:
            yield [t.put(call.args[2], "1e-05")]


@wrong
def eps_is_another(t):
    for call in t.ops("rms_norm"):
        if len(call.args) == 3:
            yield [t.put(call.args[2], t.text(call.args[2]) + " * 2")]


@wrong
def weight_has_an_offset(t):
    for call in t.ops("rms_norm"):
        if len(call.args) == 3:
            yield [t.put(call.args[1], t.text(call.args[1]) + " + 1")]


@wrong
def input_is_cast(t):
    for call in t.ops("rms_norm"):
        yield [t.put(call.args[0], t.text(call.args[0]) + ".half()")]


wrong_order = literal(
    "order",
    {
        '"cast_weight"': '"weight_cast"',
        '"weight_cast"': '"cast_weight"',
        '"one_plus_cast"': '"weight_cast"',
        '"cast_by_weight"': '"cast_weight"',
    },
)
WRONG["order_is_another"] = wrong_order
WRONG["order_is_unknown"] = literal(
    "order", {f'"{o}"': '"any"' for o in ("cast_weight", "weight_cast")}
)
WRONG["layout_is_another"] = literal(
    "layout", {'"half"': '"interleaved"', '"interleaved"': '"half"'}
)
WRONG["unsqueeze_dim_is_another"] = literal("unsqueeze_dim", {"1": "2", "2": "1"})
WRONG["out_is_another"] = literal("out", {'"same"': '"bhsd"', '"bhsd"': '"same"'})
WRONG["packed_is_another"] = literal("packed", {'"gate_up"': '"up_gate"', '"up_gate"': '"gate_up"'})
WRONG["dim_is_another"] = literal("dim", {"-1": "1"})
WRONG["helper_is_another"] = literal(
    "via", {"apply_rotary_pos_emb": "rotate_half", "self._norm": "self._other"}
)


@wrong
def helper_is_lost(t):
    for call in t.ops():
        via = keyword(call, "via")
        if via is not None and not isinstance(via, ast.Attribute):
            start, end = t.span(next(k for k in call.keywords if k.arg == "via"))
            comma = t.data.rindex(b",", 0, start)
            yield [(comma, end, "")]


@wrong
def op_is_another(t):
    for call in t.ops("rms_norm", "linears", "rope", "act_mul"):
        start, end = t.span(call.func)
        yield [(start, end, "tfr.other")]


@wrong
def op_gets_one_argument_more(t):
    for call in t.ops("linears", "act_mul", "rms_norm"):
        start = t.span(call.args[0])[0]
        yield [(start, start, "None, ")]


# ------------------------------------------------------------------ around them
@wrong
def input_changed_in_between(t):
    for call in t.ops():
        if isinstance(call.args[0], ast.Name):
            yield [t.before(t.statement(call), f"{call.args[0].id}.mul_(2)")]


@wrong
def result_changed(t):
    for call in t.ops():
        assign = t.parent[call]
        if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Tuple):
            yield [t.after(assign, f"{t.text(assign.targets[0].elts[0])}.neg_()")]


@wrong
def result_rebound(t):
    for call in t.ops():
        assign = t.parent[call]
        if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Tuple):
            name = t.text(assign.targets[0].elts[0])
            yield [t.after(assign, f"{name} = {name} * 2")]


def is_effect(n: ast.AST) -> bool:
    """A call of what is no tensor computation."""
    return method_call(n, "update", "append", "get_interface") or (
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id.endswith("interface")
    )


@wrong
def statement_with_effect_dropped(t):
    for call in t.inside(ast.Call):
        if is_effect(call):
            statement = t.statement(call)
            if isinstance(statement, (ast.Assign, ast.Expr)):
                yield [(*t.lines(statement), t.indent(statement) + "pass\n")]


@wrong
def effect_twice(t):
    for call in t.inside(ast.Call):
        if is_effect(call) and isinstance(t.statement(call), (ast.Assign, ast.Expr)):
            start, end = t.lines(t.statement(call))
            yield [(end, end, t.data[start:end].decode())]


@wrong
def effect_moved_before_an_op(t):
    for call in t.ops():
        here = t.statement(call)
        body = t.function(call).body
        later = body[body.index(here) + 1 :] if here in body else []
        for statement in later:
            if isinstance(statement, ast.If):
                start, end = t.lines(statement)
                at = t.lines(here)[0]
                yield [(at, at, t.data[start:end].decode()), (start, end, "")]
                break


@wrong
def unknown_code_added(t):
    for n in t.inside(ast.Return):
        yield [t.before(n, "print(1)")]


@wrong
def module_called_in_addition(t):
    for call in t.ops("linears"):
        assign = t.statement(call)
        yield [t.after(assign, f"unused_ = self.o_proj({t.text(call.args[0])})")]


@wrong
def hoisted_out_of_a_branch(t):
    for n in t.inside(ast.If):
        first = n.body[0]
        if isinstance(first, ast.Assign) and len(n.body) == 1 and isinstance(first.value, ast.Call):
            yield [(*t.lines(first), t.indent(first) + "pass\n"), t.before(n, t.text(first))]


@wrong
def branch_is_the_other(t):
    for n in t.inside(ast.If):
        yield [t.put(n.test, f"not ({t.text(n.test)})")]


@wrong
def choice_is_the_other(t):
    for n in t.inside(ast.IfExp):
        yield t.swap(n.body, n.orelse)


@wrong
def condition_is_another(t):
    for n in t.inside(ast.Compare):
        if isinstance(n.ops[0], ast.IsNot):
            yield [t.put(n, f"{t.text(n.left)} is {t.text(n.comparators[0])}")]


@wrong
def and_is_or(t):
    for n in t.inside(ast.BoolOp):
        word = " or " if isinstance(n.op, ast.And) else " and "
        yield [t.put(n, word.join(f"({t.text(v)})" for v in n.values))]


@wrong
def return_value_dropped(t):
    for n in t.inside(ast.Return):
        if isinstance(n.value, ast.Tuple):
            yield [t.put(n.value.elts[-1], "None")]


@wrong
def return_values_swapped(t):
    for n in t.inside(ast.Return):
        if isinstance(n.value, ast.Tuple) and len(n.value.elts) > 1:
            yield t.swap(n.value.elts[0], n.value.elts[1])


@wrong
def returns_nothing(t):
    for n in t.inside(ast.Return):
        if n.value is not None:
            yield [t.put(n.value, "None")]


@wrong
def returns_early(t):
    for f in t.changed:
        if not any(isinstance(n, ast.stmt) and "tfr" in t.text(n) for n in f.body[:1]):
            yield [t.before(f.body[-1], f"return {f.args.args[-1].arg}")]


@wrong
def other_variable(t):
    for f in t.changed:
        names = [a.arg for a in f.args.args if a.arg != "self"]
        for call in (n for n in ast.walk(f) if t.is_op(n)):
            if isinstance(call.args[0], ast.Name):
                other = [n for n in names if n != call.args[0].id]
                yield [t.put(call.args[0], n) for n in other[:1]]


@wrong
def cast_dropped(t):
    for n in t.inside(ast.Call):
        if method_call(n, "to", "float", "type_as") and not isinstance(t.parent[n], ast.Attribute):
            yield [t.put(n, t.text(n.func.value))]


@wrong
def dropout_dropped(t):
    for n in t.inside(ast.Call):
        if method_call(n, "dropout") and n.args:
            yield [t.put(n, t.text(n.args[0]))]


@wrong
def mask_missing(t):
    for n in t.inside(ast.Name):
        if n.id.endswith("attention_mask") and isinstance(t.parent[n], (ast.Call, ast.keyword)):
            yield [t.put(n, "None")]


@wrong
def scale_dropped(t):
    for n in t.inside(ast.keyword):
        if n.arg == "scaling":
            yield [t.put(n.value, "1.0")]


@wrong
def residual_is_subtracted(t):
    for n in t.inside(ast.BinOp):
        if isinstance(n.op, ast.Add):
            yield [t.put(n, f"{t.text(n.left)} - ({t.text(n.right)})")]


@wrong
def in_place_for_out_of_place(t):
    for n in t.inside(ast.Assign):
        value, target = n.value, n.targets[0]
        if (
            isinstance(value, ast.BinOp)
            and isinstance(target, ast.Name)
            and t.text(value.left) == target.id
            and isinstance(value.op, (ast.Add, ast.Mult, ast.Div))
        ):
            op = {ast.Add: "+", ast.Mult: "*", ast.Div: "/"}[type(value.op)]
            yield [t.put(n, f"{target.id} {op}= {t.text(value.right)}")]


@wrong
def dims_are_others(t):
    for n in t.inside(ast.Call):
        if method_call(n, "transpose") and len(n.args) == 2:
            yield [t.put(n.args[1], "3")]


@wrong
def attribute_is_another(t):
    for n in t.inside(ast.Attribute):
        parent = t.parent[n]
        if isinstance(n.value, ast.Name) and n.value.id == "self" and isinstance(parent, ast.Call):
            yield [t.put(n, t.text(n) + "_")]


@wrong
def number_is_another(t):
    for n in t.inside(ast.Constant):
        if type(n.value) is int and not isinstance(t.parent[n], ast.FormattedValue):
            yield [t.put(n, str(n.value + 7))]


@wrong
def string_is_another(t):
    for n in t.inside(ast.Constant):
        alone = isinstance(t.parent[n], (ast.Expr, ast.JoinedStr))
        if isinstance(n.value, str) and not alone:
            yield [t.put(n, repr(n.value + "_"))]


@wrong
def keyword_dropped(t):
    for n in t.inside(ast.Call):
        if n.keywords and n.keywords[-1].arg is None:
            start, end = t.span(n.keywords[-1])
            yield [(start, end, "")]


@wrong
def item_is_another(t):
    for n in t.inside(ast.Subscript):
        if isinstance(n.slice, ast.Constant):
            yield [t.put(n.slice, "5")]


@wrong
def loop_over_something_else(t):
    for n in t.inside(ast.For):
        yield [t.put(n.iter, f"list({t.text(n.iter)})[1:]")]


@wrong
def loop_assigns_something_else(t):
    for n in t.inside(ast.For):
        for assign in n.body:
            if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Name):
                yield [t.after(assign, f"{assign.targets[0].id} = None")]


@wrong
def exception_is_another(t):
    for n in t.inside(ast.Raise):
        yield [t.put(n.exc.func, "KeyError")] if isinstance(n.exc, ast.Call) else []


# ------------------------------------------------------------------ outside of functions
@wrong
def decorator_lost(t):
    for f in ast.walk(t.tree):
        if isinstance(f, (ast.FunctionDef, ast.ClassDef)):
            for d in f.decorator_list:
                yield [(t.starts[d.lineno - 1], t.starts[d.end_lineno], "")]


@wrong
def default_changed(t):
    for f in t.forwards:
        for d in f.args.defaults:
            yield [t.put(d, "1234")]


@wrong
def parameters_swapped(t):
    for f in t.forwards:
        if len(f.args.args) > 2 and not f.args.defaults:
            yield t.swap(*f.args.args[1:3])


@wrong
def parameter_renamed(t):
    for f in t.changed:
        name = f.args.args[1]
        at = t.span(name)[0]
        yield [(at, at + len(name.arg), name.arg + "_")]


@wrong
def base_changed(t):
    for c in t.tree.body:
        if isinstance(c, ast.ClassDef) and c.bases:
            yield [t.put(c.bases[0], "object")]


@wrong
def class_renamed(t):
    for c in t.tree.body:
        if isinstance(c, ast.ClassDef):
            at = t.data.index(c.name.encode(), t.span(c)[0])
            yield [(at, at + len(c.name), c.name + "_")]


@wrong
def init_changed(t):
    for f in ast.walk(t.tree):
        if isinstance(f, ast.FunctionDef) and f.name == "__init__" and len(f.body) > 1:
            yield [(*t.lines(f.body[-1]), "")]


@wrong
def bias_changed(t):
    for n in ast.walk(t.tree):
        if isinstance(n, ast.keyword) and n.arg == "bias":
            yield [t.put(n.value, "self.any_bias")]


@wrong
def class_attribute_changed(t):
    for c in t.tree.body:
        for n in c.body if isinstance(c, ast.ClassDef) else []:
            if isinstance(n, ast.Assign):
                yield [t.put(n.value, "None")]


@wrong
def method_lost(t):
    for c in t.tree.body:
        if isinstance(c, ast.ClassDef) and isinstance(c.body[-1], ast.FunctionDef):
            yield [(t.starts[c.body[-1].lineno - 1], t.lines(c.body[-1])[1], "    pass\n")]


@wrong
def same_tokens_at_another_depth(t):
    for f in t.changed:  # the last statement falls out of its class
        c = t.parent[f]
        if isinstance(c, ast.ClassDef) and c.body[-1] is f and not f.decorator_list:
            start, end = t.lines(f)
            lines = t.data[start:end].decode().splitlines(keepends=True)
            yield [(start, end, "".join(line[4:] if line.strip() else line for line in lines))]


@wrong
def statement_of_the_module_changed(t):
    for n in t.tree.body:
        if isinstance(n, ast.Assign):
            yield [t.put(n.value, "None")]


@wrong
def statement_of_the_module_added(t):
    yield [(len(t.data), len(t.data), "\nprint(1)\n")]


@wrong
def import_changed(t):
    for n in t.tree.body:
        if isinstance(n, ast.ImportFrom) and n.module and not n.module.startswith("tfrewrite"):
            yield [t.put(n.names[0], "something as " + (n.names[0].asname or n.names[0].name))]


@wrong
def docstring_changed(t):
    for f in ast.walk(t.tree):
        if isinstance(f, ast.FunctionDef) and ast.get_docstring(f):
            yield [(*t.span(f.body[0]), '"""another"""')]


@wrong
def helper_changed(t):
    for f in t.tree.body:
        if isinstance(f, ast.FunctionDef) and f.name == "rotate_half":
            yield [t.put(f.body[-1].value, "x")]


# ------------------------------------------------------------------ what changes nothing
@equal
def comment_added(t):
    for f in t.changed:
        yield [t.before(f.body[-1], "# a comment")]


@equal
def unused_value_added(t):
    for f in t.changed:
        yield [t.before(f.body[-1], f"unused_ = {f.args.args[1].arg}.shape")]


@equal
def result_renamed(t):
    for call in t.ops():
        assign, f = t.parent[call], t.function(call)
        if not isinstance(assign, ast.Assign) or assign not in f.body:
            continue
        names = assign.targets[0].elts if isinstance(assign.targets[0], ast.Tuple) else []
        held = {n.id for n in ast.walk(f) if isinstance(n, ast.Name)}
        parameters = {a.arg for a in ast.walk(f.args) if isinstance(a, ast.arg)}
        for name in names:
            inner = [n for s in f.body for n in ast.walk(s) if isinstance(n, ast.Name)]
            plain = not any(
                isinstance(s, (ast.If, ast.For, ast.While, ast.Try, ast.With))
                and name.id in t.text(s)
                for s in f.body
            )
            if name.id not in parameters and plain and "renamed_" not in held:
                yield [t.put(n, "renamed_") for n in inner if n.id == name.id]


@equal
def returned_by_a_name(t):
    for f in t.changed:
        last = f.body[-1]
        if (
            isinstance(last, ast.Return)
            and last.value is not None
            and last.lineno == last.end_lineno
        ):
            yield [t.put(last, f"value_ = {t.text(last.value)}"), t.after(last, "return value_")]


@equal
def parenthesised(t):
    for call in t.ops():
        yield [t.put(call, f"({t.text(call)})")]


@equal
def keywords_in_another_order(t):
    for call in t.ops():
        if len(call.keywords) > 1:
            yield t.swap(*call.keywords[:2])


@equal
def pure_statements_reordered(t):
    for f in t.changed:
        for a, b in zip(f.body, f.body[1:]):
            both = [s for s in (a, b) if isinstance(s, ast.Assign) and s.lineno == s.end_lineno]
            pure = all(
                re.fullmatch(r"[\w., =()-]+\.(view|shape|transpose).*", t.text(s)) for s in both
            )
            if len(both) < 2 or not pure:
                continue
            bound = {
                n.id for n in ast.walk(a) if isinstance(n, ast.Name) and type(n.ctx) is ast.Store
            }
            read = {n.id for n in ast.walk(b) if isinstance(n, ast.Name)}
            theirs = {
                n.id for n in ast.walk(b) if isinstance(n, ast.Name) and type(n.ctx) is ast.Store
            }
            if not bound & read and not theirs & {
                n.id for n in ast.walk(a) if isinstance(n, ast.Name)
            }:
                yield t.swap(a, b)


@equal
def quotes_changed(t):
    for call in t.ops():
        strings = [k.value for k in call.keywords if t.text(k.value).startswith('"')]
        if strings:
            yield [t.put(s, t.text(s).replace('"', "'")) for s in strings]


def mutants(kind: Kind, text: Text, most: int) -> Iterator[bytes]:
    """Texts that Python takes and that differ from `text`, the first of each function."""
    made, functions = 0, set()
    for edits in kind(text):
        if made == most:
            return
        data = text.apply(edits) if edits else text.data
        if data == text.data:
            continue
        place = next(
            (f for f in text.forwards if text.span(f)[0] <= edits[0][0] < text.span(f)[1]), None
        )
        if place is not None and place in functions:
            continue
        functions.add(place)
        try:
            ast.parse(data)
        except SyntaxError:
            continue
        made += 1
        yield data
