"""canon.py against torch: every alias gives the bits of its other spelling, and every signature has
the order, the names and the defaults that torch has.

The table is read with ast, so a new row without inputs here fails. At the end: the equivalences
that the C code knows beside the table.
"""

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

CANON = Path(__file__).resolve().parents[2] / "rewriter" / "canon.py"
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
ABSENT = object()
SPECIAL_VALUES = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 1e-6, 6.5e4, 3.3e38]


# ------------------------------------------------------------------ the table
@dataclass
class Row:
    name: str
    places: list[str]  # "x": a method, "torch", "F", "linalg"
    positional: list[str]
    variadic: str | None
    keyword_only: list[str]
    defaults: dict[str, Any]
    result: str | None  # None: a tensor
    body: ast.expr | None  # of an alias

    @property
    def parameters(self) -> list[str]:
        rest = [self.variadic] if self.variadic else []
        return [*self.positional, *rest, *self.keyword_only]


def read_row(node: ast.FunctionDef) -> Row:
    (decorator,) = node.decorator_list
    assert isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "on"
    arguments = node.args
    positional = [a.arg for a in arguments.args]
    keyword_only = [a.arg for a in arguments.kwonlyargs]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    pairs = [*zip(with_default, arguments.defaults), *zip(keyword_only, arguments.kw_defaults)]
    (statement,) = node.body
    alias = isinstance(statement, ast.Return)
    assert alias or ast.unparse(statement) == "..."
    return Row(
        name=node.name,
        places=ast.literal_eval(decorator.args[0]).split(),
        positional=positional,
        variadic=arguments.vararg.arg if arguments.vararg else None,
        keyword_only=keyword_only,
        defaults={name: ast.literal_eval(value) for name, value in pairs if value is not None},
        result=ast.unparse(node.returns) if node.returns else None,
        body=statement.value if alias else None,
    )


def read_table(text: str) -> list[Row]:
    return [read_row(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]


ROWS = read_table(CANON.read_text(encoding="utf-8"))
BY_NAME = {row.name: row for row in ROWS}
ALIASES = [row for row in ROWS if row.body is not None]
PRIMITIVES = [row for row in ROWS if row.body is None]


def function_at(row: Row, place: str) -> Callable[..., Any]:
    """The function as the table's @on finds it; a method takes its tensor first."""
    if place == "x":
        return getattr(torch.Tensor, row.name)
    if place == "linalg":
        return getattr(torch.linalg, row.name.removeprefix("linalg_"))
    return getattr(torch if place == "torch" else F, row.name)


# ------------------------------------------------------------------ inputs by parameter name
def floats(dtype: torch.dtype) -> list[torch.Tensor]:
    """Three axes, not contiguous, and a row with every kind of special value."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 6, 3, generator=generator).to(dtype).transpose(1, 2)
    special = torch.tensor([SPECIAL_VALUES * 2, SPECIAL_VALUES[::-1] * 2]).to(dtype)
    return [x, special, torch.tensor(1.5, dtype=dtype), torch.empty(0, 3, dtype=dtype)]


def others(x: torch.Tensor) -> list[Any]:
    tensors = [x.flip(0) if x.dim() else -x, x.to(torch.float32), x.to(torch.bfloat16)]
    return [*tensors, 3, 0.1, -2.5]


ALIAS_INPUTS: dict[str, Callable[[torch.Tensor], list[Any]]] = {
    "other": others,
    "rounding_mode": lambda x: [ABSENT, None, "floor", "trunc"],
    "min": lambda x: [ABSENT, None, -0.5, 0],
    "max": lambda x: [ABSENT, None, 0.25, 1],
    "dtype": lambda x: [*FLOATS, torch.float64, torch.int32],
    "dim0": lambda x: [0, -1] if x.dim() else [],
    "dim1": lambda x: [1, -2] if x.dim() else [],
    "dim": lambda x: [ABSENT, 0, 1, -1] if x.dim() else [],
}
# Where one row needs other values than its parameter's name says.
ALIAS_INPUTS_OF_ROW: dict[tuple[str, str], Callable[[torch.Tensor], list[Any]]] = {
    ("reshape_as", "other"): lambda x: [torch.empty(x.numel()), torch.empty(3), x.unsqueeze(0)],
    ("clamp_min", "min"): lambda x: [-0.5, 0, 1e-12],
    ("normalize", "p"): lambda x: [ABSENT, 1, 2.0],
    ("normalize", "eps"): lambda x: [ABSENT, 1e-5],
    ("type_as", "other"): lambda x: [torch.empty(0, dtype=d) for d in [*FLOATS, torch.float64]],
}


def alias_arguments(row: Row, dtype: torch.dtype) -> Iterator[dict[str, Any]]:
    if row.positional[0] == "tensors":
        x, y = floats(dtype)[0], floats(dtype)[0] * 2
        for tensors, dim in itertools.product(([x, y], (y, x), [x]), (ABSENT, 0, 1, -1)):
            yield {"tensors": tensors, "dim": dim}
        return
    assert row.positional[0] == "x", f"{row.name}: no inputs for a first {row.positional[0]!r}"
    for x in floats(dtype):
        choices = []
        for name in row.parameters[1:]:
            make = ALIAS_INPUTS_OF_ROW.get((row.name, name), ALIAS_INPUTS.get(name))
            assert make is not None, f"{row.name}: no inputs for its parameter {name!r}"
            choices.append(make(x))
        for values in itertools.product(*choices):
            yield {"x": x, **dict(zip(row.parameters[1:], values))}


# ------------------------------------------------------------------ running and comparing
def outcome(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """The result, or the kind of the error that torch refuses the call with."""
    try:
        return function(*args, **keywords)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        return type(error)


def refused(result: Any) -> bool:
    return isinstance(result, type)


def bits(t: torch.Tensor) -> torch.Tensor:
    """Integers that are equal where the values are, NaN's sign and payload aside."""
    if t.is_complex():
        t = torch.view_as_real(t)
    if not t.dtype.is_floating_point:
        return t
    t = torch.where(t.isnan(), torch.full_like(t, float("nan")), t)
    return t.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])


def assert_same(left: Any, right: Any, inputs: tuple[Any, ...] = ()) -> None:
    """Values, dtype, shape, strides, and which of the inputs share memory with the result."""
    assert type(left) is type(right), (left, right)
    if isinstance(left, (tuple, list)):
        assert len(left) == len(right)
        for a, b in zip(left, right):
            assert_same(a, b, inputs)
    elif isinstance(left, torch.Tensor):
        assert (left.dtype, left.shape, left.stride()) == (right.dtype, right.shape, right.stride())
        assert torch.equal(bits(left), bits(right)), (left, right)
        for t in inputs:
            if isinstance(t, torch.Tensor) and t.numel():
                assert (left.data_ptr() == t.data_ptr()) == (right.data_ptr() == t.data_ptr())
    else:
        assert left == right, (left, right)


class Names(dict):
    """What the body of an alias may name: torch, its parameters, and other rows of the table."""

    def __missing__(self, name: str) -> Any:
        row = BY_NAME[name]
        if row.body is not None:
            return lambda *args: evaluate(row, dict(zip(row.positional, args)))
        function = function_at(row, row.places[0])
        if row.variadic:
            return function
        return lambda first, *rest: function(first, **dict(zip(row.positional[1:], rest)))


def evaluate(row: Row, arguments: dict[str, Any]) -> Any:
    """The other spelling; torch's own function is called for each primitive in it."""
    code = compile(ast.Expression(row.body), row.name, "eval")
    names = Names(torch=torch, **{**row.defaults, **arguments})
    return eval(code, {"__builtins__": {}}, names)


# ------------------------------------------------------------------ aliases
# Keywords under another name in torch than in the table: such a call fits no row and stays
# unknown, so only the positions count.
OTHER_NAMES = {("swapaxes", "dim0"): "axis0", ("swapaxes", "dim1"): "axis1"}


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("row", ALIASES, ids=lambda r: r.name)
def test_alias_gives_the_same_bits(row, dtype):
    for place in row.places:
        function, ran = function_at(row, place), 0
        for arguments in alias_arguments(row, dtype):
            given = {name: value for name, value in arguments.items() if value is not ABSENT}
            first = given[row.positional[0]]
            named = {OTHER_NAMES.get((row.name, n), n): v for n, v in list(given.items())[1:]}
            left = outcome(function, first, **named)
            right = outcome(evaluate, row, given)
            assert_same(left, right, (first,))
            by_position = outcome(function, *given.values())
            if ABSENT not in arguments.values() and not refused(by_position):
                assert_same(by_position, right, (first,))
            ran += not refused(left)
        assert ran >= 3, f"{row.name} of {place}: nothing ran"


# ------------------------------------------------------------------ primitives
def sample(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """A value for a required parameter."""
    x = torch.rand(4, 6, generator=torch.Generator().manual_seed(1)).to(dtype) + 0.5
    return {
        "x": x,
        "other": x.flip(0),
        "exponent": 3,
        "condition": x > 1,
        "mask": x > 1,
        "value": 0.5,
        "dim": -1,
        "index": torch.tensor([2, 0]),
        "k": 2,
        "shifts": 1,
        "dim0": 0,
        "dim1": 1,
        "sizes": (2, 3),
        "start": 1,
        "length": 2,
        "repeats": 2,
        "chunks": 2,
        "split_size": 2,
        "tensors": [x, x],
        "source": 0,
        "destination": 1,
        "abs": x,
        "angle": x,
        "size": (2, 3),
        "fill_value": 0.5,
        "data": [1.0, 2.0],
        "weight": x,
        "normalized_shape": (6,),
        "pad": (1, 2),
        "equation": "ij,ij->i",
    }[name]


# Rows whose arguments depend on each other.
SAMPLES: dict[str, dict[str, Any]] = {
    "matmul": {"other": torch.ones(6, 2)},
    "mm": {"mat2": torch.ones(6, 2)},
    "bmm": {"x": torch.ones(2, 3, 4), "mat2": torch.ones(2, 4, 5)},
    "outer": {"x": torch.arange(3.0), "vec2": torch.arange(4.0)},
    "einsum": {"operands": (torch.ones(2, 3), torch.full((2, 3), 2.0))},
    "gather": {"index": torch.tensor([[0], [2], [1], [5]])},
    "select": {"index": 1},
    "item": {"x": torch.tensor(2.5)},
    "squeeze": {"x": torch.ones(2, 1, 3)},
    "view_as_complex": {"x": torch.rand(3, 2)},
    "view_as_real": {"x": torch.complex(torch.rand(3), torch.rand(3))},
    "embedding": {"x": torch.tensor([1, 3]), "weight": torch.rand(4, 5)},
    "one_hot": {"x": torch.tensor([1, 3])},
    "expand_as": {"x": torch.ones(1, 6), "other": torch.ones(4, 6)},
    "expand": {"x": torch.ones(1, 6), "sizes": (4, 6)},
    "view": {"shape": (6, 4)},
    "reshape": {"shape": (3, 8)},
    "permute": {"dims": (1, 0)},
    "to": {"dtype": torch.bfloat16},
}


def arguments_of(row: Row) -> tuple[list[Any], list[str]]:
    """Values by position for what has no default, and the names they belong to."""
    known = SAMPLES.get(row.name, {})
    needed = [p for p in row.positional if p not in row.defaults]
    return [known[p] if p in known else sample(p) for p in needed], needed


def variadic_of(row: Row) -> tuple[Any, ...]:
    if row.variadic is None:
        return ()
    known = SAMPLES.get(row.name, {})
    return known[row.variadic] if row.variadic in known else sample(row.variadic)


def call(row: Row, place: str, values: list[Any], **keywords: Any) -> Any:
    rest = variadic_of(row)
    if row.variadic in ("shape", "dims") and place == "torch":
        rest = (rest,)  # the functions take one tuple where the methods take the numbers too
    return function_at(row, place)(*values, *rest, **keywords)


PLACED = [(row, place) for row in PRIMITIVES for place in row.places]
PLACED_IDS = [f"{row.name}-{place}" for row, place in PLACED]


# A value other than the default, to tell apart which parameter a position reaches.
UNLIKE: dict[str, Any] = {
    "alpha": 2,
    "rounding_mode": "floor",
    "dtype": torch.float64,
    "dim": 0,
    "keepdim": True,
    "correction": 0,
    "p": 1,
    "ord": 1,
    "min": 0.75,
    "max": 1.0,
    "largest": False,
    "sorted": False,
    "descending": True,
    "dims": 1,
    "diagonal": 1,
    "inplace": True,
    "approximate": "tanh",
    "beta": 2,
    "threshold": 1,
    "device": "cpu",
    "non_blocking": True,
    "copy": True,
    "start_dim": 1,
    "end_dim": 0,
    "step": 2,
    "end": 7,
    "weight": torch.full((6,), 2.0),
    "bias": torch.full((6,), 3.0),
    "eps": 0.1,
    "padding_idx": 1,
    "mode": "replicate",
    "value": 2.0,
    "num_classes": 9,
}
UNLIKE_OF_ROW = {("linear", "bias"): torch.full((4,), 3.0)}
# torch refuses these defaults when they are written out: nobody can have done so.
NEVER_EXPLICIT = {("squeeze", "dim"), ("max", "dim"), ("min", "dim"), ("arange", "end")}


# torch takes these by keyword alone: what stands at their position fits no call that runs.
KEYWORD_ALONE = {
    *(
        (row, "dtype")
        for row in ("cumsum", "mean", "sum", "norm", "linalg_norm", "zeros_like", "ones_like")
    ),
    *((row, "dtype") for row in ("arange", "full", "tensor")),
    *((row, "device") for row in ("to", "arange", "zeros_like", "ones_like", "full", "tensor")),
    ("add", "alpha"),
    ("sub", "alpha"),
    ("div", "rounding_mode"),
    *(("var", p) for p in ("correction", "keepdim")),  # `unbiased`, a bool, stands before keepdim
    *(("to", p) for p in ("non_blocking", "copy")),
    ("relu", "inplace"),  # of F.relu by position too
    ("gelu", "approximate"),
}


def unlike(row: Row, name: str) -> Any:
    value = UNLIKE_OF_ROW.get((row.name, name), UNLIKE.get(name, ABSENT))
    assert value is not ABSENT, f"{row.name}: no value for its parameter {name!r}"
    return value


def optional(row: Row) -> list[str]:
    return [p for p in (*row.positional, *row.keyword_only) if p in row.defaults]


def surroundings(row: Row, name: str) -> list[dict[str, Any]]:
    """What else may be given: keepdim= wants a dim=, step= wants an end=."""
    before = optional(row)[: optional(row).index(name)]
    return [
        {},
        {p: row.defaults[p] for p in before},
        {p: unlike(row, p) for p in before},
        *({p: unlike(row, p)} for p in optional(row) if p != name),
    ]


def calls(row: Row, place: str, **keywords: Any) -> list[Any]:
    """The call with required arguments by position, and, after the first, by keyword."""
    values, names = copies(arguments_of(row)[0]), arguments_of(row)[1]
    results = [outcome(call, row, place, values, **keywords)]
    if row.variadic is None and len(values) > 1:
        named = dict(zip(names[1:], copies(values)[1:]))
        results.append(outcome(call, row, place, copies(values)[:1], **named, **keywords))
    return results


def ever_taken(row: Row, **keywords: Any) -> bool:
    """Whether any place takes the keyword, whatever else is given."""
    (name,) = keywords
    for place in row.places:
        for others_ in surroundings(row, name):
            if not all(refused(r) for r in calls(row, place, **{**others_, **keywords})):
                return True
    return False


@pytest.mark.parametrize("row,place", PLACED, ids=PLACED_IDS)
def test_kind_of_result(row, place):
    """The annotation says what comes out; and the call of the required arguments works."""
    keywords = {"min": 1.0} if row.name == "clamp" else {}  # which wants one of its two bounds
    result = call(row, place, arguments_of(row)[0], **keywords)
    if row.result == "tuple":
        assert isinstance(result, (tuple, list))
    elif row.result == "int":
        assert isinstance(result, (int, float, torch.Size)), result
    else:
        assert isinstance(result, torch.Tensor)


@pytest.mark.parametrize("row,place", PLACED, ids=PLACED_IDS)
def test_defaults_are_torchs(row, place):
    """With a default written out, alone or beside others, the result stays what it is."""
    for name in optional(row):
        for given in surroundings(row, name):
            given.pop(name, None)
            plain = calls(row, place, **given)
            spelled = calls(row, place, **given, **{name: row.defaults[name]})
            for a, b in zip(plain, spelled):
                if not refused(a) and not refused(b):
                    assert_same(a, b)
        taken = ever_taken(row, **{name: row.defaults[name]})
        assert taken != ((row.name, name) in NEVER_EXPLICIT), f"{name}={row.defaults[name]!r}"


@pytest.mark.parametrize("row,place", PLACED, ids=PLACED_IDS)
def test_positions_are_torchs(row, place):
    """What torch takes at a position is the parameter that the table has there."""
    names = [p for p in optional(row) if p in row.positional]
    for at, name in enumerate(names):
        value, before, reached = unlike(row, name), names[:at], False
        for choose in (lambda p: row.defaults[p], lambda p: unlike(row, p)):
            earlier = {p: choose(p) for p in before}
            values = [*copies(arguments_of(row)[0]), *earlier.values(), value]
            by_position = outcome(call, row, place, values)
            reached |= not refused(by_position)
            for by_keyword in calls(row, place, **earlier, **{name: value}):
                if not refused(by_position) and not refused(by_keyword):
                    assert_same(by_position, by_keyword)
        assert ever_taken(row, **{name: value}), f"torch knows no {name}= of {row.name}"
        known = (row.name, name) in KEYWORD_ALONE
        assert reached or known or row.variadic, f"torch takes no {name} there"


@pytest.mark.parametrize("row,place", PLACED, ids=PLACED_IDS)
def test_required_names_are_torchs(row, place):
    """A required argument by its name in the table means the same, or is refused by torch."""
    if row.variadic:
        return  # nothing can stand before it by keyword
    values, names = arguments_of(row)
    keywords = {"min": 1.0} if row.name == "clamp" else {}
    plain = call(row, place, values, **keywords)
    taken = {p: keywords_taken(row, p) for p in row.places}
    for given in taken[place]:
        if given is not None:
            assert_same(given, plain)
    for at, name in enumerate(names[1:]):
        assert any(taken[p][at] is not None for p in row.places), f"torch knows no {name}="


def keywords_taken(row: Row, place: str) -> list[Any]:
    """The result with all arguments from the second, third, ... on by keyword; None: refused."""
    values, names = arguments_of(row)
    results = []
    for at in range(1, len(names)):
        keywords = dict(zip(names[at:], values[at:]))
        given = outcome(call, row, place, values[:at], **keywords)
        results.append(None if refused(given) else given)
    return results


def copies(values: list[Any]) -> list[Any]:
    """Fresh tensors: inplace=True writes to them."""
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


# numpy's names of two parameters (torch_keyword of rewriter/calls.c).
NUMPY = {"dim": "axis", "keepdim": "keepdims"}


@pytest.mark.parametrize(
    ("row", "place"),
    [(r, p) for r in ROWS if r.name in ("mean", "sum", "cat", "stack") for p in r.places],
    ids=str,
)
def test_other_keywords_are_torchs(row, place):
    values, _ = arguments_of(row)
    for name, other in NUMPY.items():
        if name not in row.positional:
            continue
        given = True if name == "keepdim" else -1
        rest = {"dim": -1} if name == "keepdim" else {}
        want = call(row, place, values, **{name: given}, **rest)
        assert torch.equal(call(row, place, values, **{other: given}, **rest), want)


def test_table_is_read_whole():
    assert len(ALIASES) >= 14 and len(PRIMITIVES) >= 80
    assert len(BY_NAME) == len(ROWS), "two rows of one name: the program sees the last alone"
    assert {p for row in ROWS for p in row.places} <= {"x", "torch", "F", "linalg"}
    assert NEVER_EXPLICIT <= {(row.name, p) for row in PRIMITIVES for p in row.defaults}


@pytest.mark.parametrize(
    "text,check,place",
    [
        ('@on("x torch")\ndef mean(x, dim=0): ...', test_defaults_are_torchs, "x"),
        ('@on("F")\ndef gelu(x, approximate="tanh"): ...', test_defaults_are_torchs, "F"),
        ('@on("x")\ndef mean(x, keepdim=False, dim=None): ...', test_positions_are_torchs, "x"),
        ('@on("x")\ndef flatten(x, end_dim=-1, start_dim=0): ...', test_positions_are_torchs, "x"),
        ('@on("F")\ndef softplus(x, threshold=20, beta=1): ...', test_positions_are_torchs, "F"),
        ('@on("x")\ndef transpose(x, dim1, dim0): ...', test_required_names_are_torchs, "x"),
        ('@on("x")\ndef bmm(x, other): ...', test_required_names_are_torchs, "x"),
        ('@on("x")\ndef where(condition, x, other): ...', test_kind_of_result, "x"),
        ('@on("x")\ndef chunk(x, chunks, dim=0): ...', test_kind_of_result, "x"),
    ],
)
def test_a_wrong_primitive_is_seen(text, check, place):
    (row,) = read_table(text)
    with pytest.raises((AssertionError, RuntimeError)):
        check(row, place)


@pytest.mark.parametrize(
    "text,message",
    [
        ('@on("x")\ndef half(x): return to(x, torch.bfloat16)', "float16"),
        ('@on("x torch")\ndef square(x): return mul(x, 2)', "tensor"),
        ('@on("x")\ndef type_as(x, other): return to(x, torch.float32)', "bfloat16"),
        ('@on("x")\ndef flip(x, strange): return neg(x)', "no inputs for its parameter 'strange'"),
    ],
)
def test_a_wrong_alias_is_seen(text, message):
    (row,) = read_table(text)
    with pytest.raises(AssertionError, match=message):
        test_alias_gives_the_same_bits(row, torch.float32)


# ------------------------------------------------------------------ what the C code knows besides
# (left, right, the parameters they may use): see build_binary, build_slice, literal_number,
# number_of, unwrap_dim, is_length and arrange.
EQUIVALENT = [
    ("x * x", "x.pow(2)"),
    ("x ** 2", "x.pow(2)"),
    ("x ** 2.0", "x ** 2"),
    ("x[0:n]", "x[:n]"),
    ("x[..., 0:n]", "x[..., :n]"),
    ("1.0 + x", "1 + x"),
    ("2.0 * x", "2 * x"),
    ("x + 1e0", "x + 1"),
    ("x / 2.0", "x / 2"),
    ("x - 1.0", "x - 1"),
    ("x + y", "y + x"),
    ("x * y", "y * x"),
    ("x * 0.1", "0.1 * x"),
    ("x + y", "torch.add(x, y)"),
    ("x - y", "torch.sub(x, y)"),
    ("x * y", "torch.mul(x, y)"),
    ("x / y", "torch.div(x, y)"),
    ("x @ y.mT", "torch.matmul(x, y.mT)"),
    ("x ** 3", "torch.pow(x, 3)"),
    ("-x", "torch.neg(x)"),
    ("x.mean((-1,))", "x.mean(-1)"),
    ("x.mean([-1])", "x.mean(-1)"),
    ("x.mean((-1,), keepdim=True)", "x.mean(-1, True)"),
    ("x.sum((0,))", "x.sum(0)"),
    ("x.squeeze((0,))", "x.squeeze(0)"),
    ("x.var((-1,), keepdim=True)", "x.var(-1, keepdim=True)"),
    ("x.amax((-1,))", "x.amax(-1)"),
    ("x.norm(dim=(-1,))", "x.norm(dim=-1)"),
    ("x.norm(p=2, dim=-1)", "x.norm(dim=-1)"),
    ("torch.linalg.norm(x, dim=0, keepdim=True)", "x.norm(dim=0, keepdim=True)"),
    ("torch.linalg.norm(x, 2.0, dim=-1)", "x.norm(dim=-1)"),
    ("x.view(x.shape)", "x.view(*x.shape)"),
    ("x.reshape((n, -1))", "x.reshape(n, -1)"),
    ("x.permute([1, 0])", "x.permute(1, 0)"),
    ("x.expand((2, *x.shape))", "x.expand(2, *x.shape)"),
    ("torch.zeros((n, n))", "torch.zeros(n, n)"),
    ("torch.mean(input=x, dim=-1)", "torch.mean(x, -1)"),
    ("torch.mean(x, axis=-1, keepdims=True)", "torch.mean(x, -1, True)"),
    ("x.sum(axis=(0,))", "x.sum(0)"),
    ("torch.cat((x, y), axis=1)", "torch.cat((x, y), 1)"),
    ("torch.linalg.norm(x, axis=0)", "torch.linalg.norm(x, dim=0)"),
    ("F.relu(x)", "torch.relu(x)"),
    ("F.relu(input=x)", "F.relu(x)"),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("left,right", EQUIVALENT, ids=[f"{a} = {b}" for a, b in EQUIVALENT])
def test_equivalence_beside_the_table(left, right, dtype):
    x = floats(dtype)[1]
    names = {"torch": torch, "F": F, "x": x, "y": x.flip(1), "n": 2}
    assert_same(eval(left, names), eval(right, names), (x,))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("left,right", [("x * x", "x.pow(2)"), ("x.square()", "x.pow(2)")])
def test_equivalence_of_gradients(left, right, dtype):
    """Finite values whose squares and slopes stay in range: beyond it 2 * x overflows first."""
    x = floats(dtype)[0].clamp(-50, 50)
    slopes = []
    for text in (left, right):
        leaf = x.clone().requires_grad_()
        eval(text, {"x": leaf}).backward(torch.linspace(-3, 3, x.numel()).to(dtype).view(x.shape))
        slopes.append(leaf.grad)
    assert_same(*slopes)


def test_not_equivalent():
    """Looks alike and is not: what the program must keep apart (and does: tests/edge)."""
    x = floats(torch.bfloat16)[0]
    rounded_early = (x.float() * 0.3).to(x.dtype) * x
    assert not torch.equal(rounded_early, (x.float() * 0.3 * x).to(x.dtype))
    # One use of x instead of two: the gradients of all its uses add up in another order.
    slopes = []
    for text in (
        "x * torch.rsqrt((x * x).mean(-1, True))",
        "x * torch.rsqrt(x.pow(2).mean(-1, True))",
    ):
        leaf = torch.randn(64, 64, generator=torch.Generator().manual_seed(2)).requires_grad_()
        eval(text, {"x": leaf, "torch": torch}).pow(3).sum().backward()
        slopes.append(leaf.grad)
    assert not torch.equal(*slopes)
    torch.testing.assert_close(*slopes, rtol=1e-5, atol=1e-5)
    ids = torch.arange(3)
    assert (ids * 2).dtype != (ids * 2.0).dtype  # docs/NUMERICS.md, "Known differences"
    assert "where" not in BY_NAME or BY_NAME["where"].places == ["torch"], "c.where is not torch's"
