"""float32 error against a float64 oracle is no larger than the original's.

At most 1.05x in the geometric mean over 20 seeds. The oracle is the same source with its float32
casts rewritten to float64. Three levels: whole models, norm and MLP modules, and every reference
of the rule files against the op that it stands for; with references and with kernels. Whole models
in bfloat16 the same, where float32 is the oracle.
"""

import copy
import importlib
import inspect
import types
import zlib

import harness
import kernel_checks
import modes
import pytest
import torch
from families import FAMILIES, expected_table
from tfrewrite import ops as tfr
from torch import nn

SEEDS = range(20)
MAX_RATIO = 1.05


def assert_no_worse(name, figures, errors):
    """`errors`: (error of the original, error of the rewritten side) for each seed."""
    assert len(errors) == len(SEEDS)
    assert any(e > 0 for e, _ in errors), "the oracle equals float32: it is none"
    ratio = harness.geometric_mean(harness.error_ratio(*e) for e in errors)
    figures(name, ratio)
    assert ratio <= MAX_RATIO, f"{name}: {ratio:.4f} times the original's error"


@pytest.fixture(params=[modes.parameter(m) for m in (modes.REFERENCES, modes.KERNELS)])
def mode(request):
    with modes.running(request.param):
        yield request.param


@pytest.fixture(scope="module")
def three_models():
    """family -> (original, rewritten, oracle) with the same weights; the oracle's in float64."""
    built = {}

    def get(name):
        if name not in built:
            family, text = FAMILIES[name], harness.original_text(name)
            variant = next(iter(family.variants))
            rewritten = harness.rewrite_family(name, "host").text
            modules = [
                harness.original_module(name),
                harness.load_module(name, rewritten, "float64_pair"),
                harness.load_module(name, harness.float64_text(text), "oracle"),
            ]
            old, new, oracle = (harness.build(m, family, variant) for m in modules)
            built[name] = old, new, oracle.to(torch.float64)
        return built[name]

    return get


def reseed(models, seed):
    old, new, oracle = models
    harness.randomize(old, seed)
    harness.copy_weights(old, new)
    oracle.load_state_dict({k: v.double() for k, v in old.state_dict().items()})
    for a, b in zip(
        old.buffers(), oracle.buffers(), strict=True
    ):  # inverse frequencies are inputs of all three
        b.data = a.data.double() if a.is_floating_point() else a.data.clone()


def logits(models, batch):
    with torch.no_grad():
        return [m(**batch, use_cache=False).logits for m in models]


@pytest.mark.parametrize("family", FAMILIES)
def test_model(three_models, family, mode, figures):
    models = three_models(family)
    batch = harness.inputs(models[0])
    errors = []
    for seed in SEEDS:
        reseed(models, seed)
        a, b, exact = logits(models, batch)
        assert exact.dtype == torch.float64
        errors.append((harness.rms(a - exact), harness.rms(b - exact)))
    assert_no_worse(f"error ratio, models, {mode}", figures, errors)


@pytest.mark.kernels
@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_model(three_models, family, figures):
    """One draw of rounding errors is as good as another, so the mean must not grow."""
    wide, *_ = models = three_models(family)
    batch = harness.inputs(wide)
    old, new = (copy.deepcopy(m).bfloat16() for m in models[:2])
    errors = []
    for seed in SEEDS:
        harness.randomize(wide, seed)
        harness.copy_weights(wide, old)
        harness.copy_weights(wide, new)
        with modes.running(modes.KERNELS):
            a, b, exact = logits((old, new, kernel_checks.exact_model(old)), batch)
        assert a.dtype == b.dtype == torch.bfloat16 and exact.dtype == torch.float32
        errors.append((harness.rms(a - exact), harness.rms(b - exact)))
    assert_no_worse("error ratio, bfloat16 models", figures, errors)


@pytest.mark.parametrize("family", FAMILIES)
def test_modules(three_models, family, mode, figures):
    """One norm and one MLP of each family on inputs of several magnitudes."""
    models = three_models(family)
    reseed(models, 0)
    fused = expected_table()[family]["fused"]
    tested = 0
    for name in (c for c in fused if c.endswith(("Norm", "MLP"))):
        old, new, oracle = (
            next((m for m in model.modules() if type(m).__name__ == name), None) for model in models
        )
        if old is None:
            continue
        width = old.weight.numel() if name.endswith("Norm") else models[0].config.hidden_size
        errors = []
        for seed in SEEDS:
            x = torch.randn(2, 5, width, generator=torch.Generator().manual_seed(seed)) * 10.0 ** (
                seed % 5 - 3
            )
            with torch.no_grad():
                a, b, exact = old(x), new(x), oracle(x.double())
            errors.append((harness.rms(a - exact), harness.rms(b - exact)))
        assert_no_worse(f"error ratio, modules, {mode}", figures, errors)
        tested += 1
    assert tested, f"{family}: no module tested"


# ------------------------------------------------------------------ the references of the rule
# files
# A parameter's value by annotation and name. ROWS x SEQ tokens, HEADS heads of WIDTH; shapes must
# only fit one another.
ROWS, SEQ, HEADS, WIDTH, INNER = 2, 5, 3, 16, 24
NUMERIC_OPS = (
    "rms_norm",
    "add_rms_norm",
    "gated_rms_norm",
    "l2_norm",
    "act_mul",
    "rope",
    "qk_norm_rope",
    "softcap",
)


class RMSNorm(nn.Module):
    """A stand-in for the user's norm module where an op takes one, rewritten as that would be."""

    def __init__(self, weight):
        super().__init__()
        self.weight, self.eps = nn.Parameter(weight), 1e-3

    def forward(self, x):
        return tfr.rms_norm(x, self.weight, self.eps, order="cast_weight")


class ExactNorm(RMSNorm):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def _angles(seed, width):
    position = torch.arange(SEQ, dtype=torch.float32)[:, None] + seed
    return position / 10000.0 ** (torch.arange(width, dtype=torch.float32) / width)


def keyword_of(variant, parameter) -> str:
    """The keyword under which a call passes this parameter of the reference."""
    return next((k for k, p in variant.named.items() if p == parameter), parameter)


def head_axis(variant) -> int:
    """Where q and k have their heads: at 2 only where a variant keeps the layout of the view."""
    return 2 if variant.literals.get("out") else 1


def value_of(op, variant, parameter, kind, seed):
    """One argument in float32, seeded by its name; KeyError for what this table does not know."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{parameter}/{seed}".encode()))
    literals = variant.literals
    width = WIDTH if "rope" in op else INNER
    if kind == "Norm":
        return RMSNorm(1 + 0.3 * torch.randn(width, generator=generator))
    if kind == "Act":
        return nn.SiLU()
    if kind == "Param":
        return 1 + 0.3 * torch.randn(width, generator=generator)
    if kind == "Scalar":
        numbers = {"eps": 1e-3, "epsilon": 1e-3, "limit": 1.5, "slope": 1.702}
        return {**numbers, "cap": 2.5, "scale": 0.37}[parameter]
    if kind == "Int":
        return {"size": INNER // 3, "groups": 3, "norm_first": seed % 2, "dim": -1}[parameter]
    if kind == "Const":
        axis = 2 if literals.get("out") == "same" else 1
        return {"unsqueeze_dim": axis, "dim": -1}[keyword_of(variant, parameter)]
    if kind == "Tensor" and parameter in ("cos", "sin"):
        narrow = literals.get("partial") or literals.get("layout", "").endswith("_width")
        angles = _angles(seed, WIDTH // 2 if narrow else WIDTH)
        if "position_ids" not in variant.parameters:  # else a table that they look up
            angles = angles.expand(ROWS, SEQ, -1)
        if "unsqueeze_dim" not in variant.named and "unsqueeze_dim" not in literals:
            angles = angles.unsqueeze(head_axis(variant))  # given with its head axis
        return angles.cos() if parameter == "cos" else angles.sin()
    if kind == "Tensor" and parameter == "position_ids":
        return torch.randint(SEQ, (ROWS, SEQ), generator=generator)
    if kind == "Tensor" and "rope" in op:
        shape = [ROWS, SEQ, WIDTH]
        shape.insert(head_axis(variant), HEADS)
        return torch.randn(shape, generator=generator)
    if kind == "Tensor":
        return torch.randn(
            ROWS, SEQ, 2 * INNER if literals.get("packed") else INNER, generator=generator
        )
    raise KeyError(kind)


def variants():
    rules = importlib.import_module("tfrewrite.rules")
    return [
        (op.name, v.name)
        for op in rules.load().values()
        if op.name in NUMERIC_OPS
        for v in op.variants
    ]


def float64_reference(function):
    """The reference in float64, from its rule file's text; declarations do nothing there."""
    module = inspect.getmodule(function)
    names = types.ModuleType(f"{module.__name__}__float64")
    text = harness.float64_text(inspect.getsource(module))
    rules = importlib.import_module("tfrewrite.rules")

    def inert(*_, **__):
        return lambda f: f

    saved = {n: getattr(rules, n) for n in ("op", "ref", "refuse", "siblings")}
    try:
        for n in saved:
            setattr(rules, n, inert)
        exec(compile(text, f"{module.__file__} in float64", "exec"), names.__dict__)
    finally:
        for n, f in saved.items():
            setattr(rules, n, f)
    return getattr(names, function.__name__)


def doubled(value):
    if isinstance(value, RMSNorm):
        return ExactNorm(value.weight.detach().double())
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).double()
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value


def tensors(result):
    return list(result) if isinstance(result, tuple) else [result]


def call_op(op, variant, values):
    """The op through its public call, with this variant's literals."""
    positional = [values[p] if isinstance(p, str) else p.value for p in variant.positional]
    named = {k: values[p] for k, p in variant.named.items()}
    return getattr(tfr, op)(*positional, **variant.literals, **named)


def test_every_numeric_op_has_variants():
    known = {op for op, _ in variants()}
    assert {"rms_norm", "add_rms_norm", "act_mul", "rope", "qk_norm_rope"} <= known


@pytest.mark.parametrize("op,name", variants(), ids=lambda v: v)
def test_reference(op, name, mode, figures):
    rules = importlib.import_module("tfrewrite.rules")
    variant = next(v for v in rules.load()[op].variants if v.name == name)
    exact_reference = float64_reference(variant.function)
    kinds = {
        p: getattr(a, "__name__", str(a)).split(".")[-1]
        for p, a in variant.function.__annotations__.items()
    }
    by_kernel = mode == modes.KERNELS and variant.kernel is not None
    errors = []
    for seed in SEEDS:
        values = {p: value_of(op, variant, p, kinds[p], seed) for p in variant.parameters}
        with torch.no_grad(), modes.running(modes.REFERENCES):
            old = tensors(variant.function(**values))
            exact = tensors(exact_reference(**{p: doubled(v) for p, v in values.items()}))
        with torch.no_grad(), tfr.record() as paths:
            new = tensors(call_op(op, variant, values))
        assert paths[op, name, modes.kernel_path() if by_kernel else "reference"] == 1, paths
        for a, b, e in zip(old, new, exact, strict=True):
            assert a.shape == b.shape == e.shape and a.dtype == b.dtype and e.dtype == torch.float64
        errors.append(
            tuple(
                sum(harness.rms(t - e) ** 2 for t, e in zip(side, exact)) ** 0.5
                for side in (old, new)
            )
        )
    assert_no_worse(f"error ratio, ops, {mode}", figures, errors)
