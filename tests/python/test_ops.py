"""The op functions: which reference a call selects, and whose helper runs."""

import inspect
import subprocess
import sys
import types

import modes
import pytest
import torch
from torch import nn


def module_of(text, name="user_file", path="/user_file.py"):
    """A user's module, from text, as its own file."""
    module = types.ModuleType(name)
    exec(compile(text, path, "exec"), module.__dict__)
    return module


USER = """
import torch
from tfrewrite import ops as tfr

SCALE = 1.0

def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)

def apply_rotary(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos * SCALE + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

def apply_interleaved(q, k, cos, sin, unsqueeze_dim=1):
    return q + 1, k + 1

def rope(q, k, cos, sin):
    return tfr.demo_rope(q, k, cos, sin, unsqueeze_dim=1, via=apply_rotary)

def scaled(q, k, s, cos, sin):
    return tfr.demo_scaled_rope(q, k, s, cos, sin, unsqueeze_dim=1, via=apply_rotary)

def both(q, k, cos, sin):
    a = tfr.demo_rope(q, k, cos, sin, unsqueeze_dim=1, via=apply_rotary)
    return a, apply_interleaved(q, k, cos, sin)
"""


@pytest.fixture
def user(tfr):
    return module_of(USER)


def q_k_cos_sin():
    g = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 3, 5, 8, generator=g), torch.randn(2, 1, 5, 8, generator=g)
    cos, sin = torch.randn(2, 5, 8, generator=g), torch.randn(2, 5, 8, generator=g)
    return q, k, cos, sin


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# ------------------------------------------------------------------ selection
def test_literals_select_the_variant(tfr):
    x, act = torch.randn(4, 6), nn.SiLU()
    a, b = x.chunk(2, dim=-1)
    assert torch.equal(tfr.demo_mul(act, a, b), act(a) * b)
    assert torch.equal(tfr.demo_mul(act, x, packed="gate_up"), act(a) * b)
    assert torch.equal(tfr.demo_mul(act, x, packed="up_gate"), act(b) * a)
    assert torch.equal(tfr.demo_mul(None, a, b), a * b)


def test_siblings_take_any_number(tfr):
    x, modules = torch.randn(3, 4), [nn.Linear(4, n) for n in (2, 5, 7)]
    for n in (2, 3):
        assert same(tfr.demo_linears(x, *modules[:n]), [m(x) for m in modules[:n]])
    with pytest.raises(TypeError, match="no variant takes 2 arguments"):
        tfr.demo_linears(x, modules[0])


@pytest.mark.parametrize(
    "arguments,literals,said",
    [
        ((nn.SiLU(), 1), {"packed": "sideways"}, "2 arguments, packed='sideways'"),
        ((nn.SiLU(), 1), {"order": "x"}, "2 arguments, order='x'"),
        ((nn.SiLU(), 1), {}, "2 arguments"),
        ((nn.SiLU(), 1, 2), {"packed": "gate_up"}, "3 arguments, packed='gate_up'"),
        ((1,), {}, "1 arguments"),
    ],
)
def test_unknown_call_names_the_variants(tfr, arguments, literals, said):
    with pytest.raises(TypeError) as caught:
        tfr.demo_mul(*arguments, **literals)
    assert f"tfr.demo_mul: no variant takes {said}." in str(caught.value)
    assert "tfr.demo_mul(act, gate_up, packed='up_gate')" in str(caught.value)


def test_unknown_op(tfr):
    with pytest.raises(AttributeError, match="no op 'demo_nothing'.*set TFR_RULES"):
        tfr.demo_nothing  # noqa: B018


def test_source_and_documentation(tfr):
    assert "packed == 'gate_up'" in inspect.getsource(tfr.demo_mul)
    assert tfr.demo_mul.__doc__.startswith("demo_mul(Module act")


# ------------------------------------------------------------------ whose helper
def test_own_helper_is_computed_by_the_op(tfr, user):
    arguments = q_k_cos_sin()
    with tfr.record() as calls:
        assert same(user.rope(*arguments), user.apply_rotary(*arguments))
    assert calls == {("demo_rope", "half", "reference"): 1}


def stranger(q, k, cos, sin, unsqueeze_dim=1):
    return q * 2 + unsqueeze_dim, k * 3


def test_replaced_helper_is_called(tfr, user):
    q, k, cos, sin = q_k_cos_sin()
    user.apply_rotary = stranger
    with tfr.record() as calls:
        assert same(user.rope(q, k, cos, sin), (q * 2 + 1, k * 3))
    assert calls == {("demo_rope", "half", "helper"): 1}


def test_helper_without_the_keyword(user):
    q, k, cos, sin = q_k_cos_sin()
    user.apply_rotary = lambda q, k, cos, sin: (q - 1, k)
    assert same(user.rope(q, k, cos, sin), (q - 1, k))
    user.apply_rotary = lambda *args: (args[0] - 1, args[1])
    assert same(user.rope(q, k, cos, sin), (q - 1, k))


def test_helper_gets_only_the_keywords_that_the_source_gave(user):
    q, k, cos, sin = q_k_cos_sin()
    user.apply_rotary = lambda q, k, cos, sin, **more: (q + len(more), k)
    assert same(user.rope(q, k, cos, sin), (q, k))


def test_helper_that_is_an_object(user):
    class Kernel:
        __hash__ = None  # nothing may rely on a hash

        def __call__(self, q, k, cos, sin, unsqueeze_dim=1):
            return q + 10, k

    q, k, cos, sin = q_k_cos_sin()
    user.apply_rotary = Kernel()
    assert same(user.rope(q, k, cos, sin), (q + 10, k))


def test_replaced_inner_helper_is_honoured(tfr, user):
    q, k, cos, sin = q_k_cos_sin()
    user.rotate_half = lambda x: x * 0
    with tfr.record() as calls:
        assert same(user.rope(q, k, cos, sin), (q * cos.unsqueeze(1), k * cos.unsqueeze(1)))
    assert calls == {("demo_rope", "half", "helper"): 1}


def test_helper_executed_into_the_module(user):
    """As tools do that patch a model's file from generated source: globals and name are right."""
    q, k, cos, sin = q_k_cos_sin()
    text = "def apply_rotary(q, k, cos, sin, unsqueeze_dim=1):\n    return q + 5, k\n"
    exec(compile(text, "/patch.py", "exec"), user.__dict__)
    assert same(user.rope(q, k, cos, sin), (q + 5, k))


@pytest.mark.parametrize("function", ["rope", "both"])
def test_helpers_of_the_file_swapped(user, function):
    q, k, cos, sin = q_k_cos_sin()
    user.apply_rotary = user.apply_interleaved
    result = getattr(user, function)(q, k, cos, sin)
    assert same(result if function == "rope" else result[0], (q + 1, k + 1))


def test_helper_wrapped_by_a_decorator(user):
    import functools

    q, k, cos, sin = q_k_cos_sin()
    plain = user.apply_rotary

    @functools.wraps(plain)
    def wrapped(*args, **kwargs):
        return tuple(t + 1 for t in plain(*args, **kwargs))

    user.apply_rotary = wrapped
    assert same(user.rope(q, k, cos, sin), [t + 1 for t in plain(q, k, cos, sin)])


def test_imported_helper_is_called(tfr):
    home = module_of(USER, "home", "/home_file.py")
    user = module_of(USER)
    user.apply_rotary = home.apply_rotary
    home.SCALE = 2.0
    arguments = q_k_cos_sin()
    assert same(user.rope(*arguments), home.apply_rotary(*arguments))


def test_fallback_expression(tfr, user):
    q, k, cos, sin = q_k_cos_sin()
    expected = user.apply_rotary(q * 2.0, k * 2.0, cos, sin)
    assert same(user.scaled(q, k, 2.0, cos, sin), expected)
    user.apply_rotary = stranger
    assert same(user.scaled(q, k, 2.0, cos, sin), (q * 2.0 * 2 + 1, k * 2.0 * 3))


# ------------------------------------------------------------------ torch.compile and others
@pytest.fixture
def dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_compiles_without_a_break(tfr, user, dynamo):
    arguments = q_k_cos_sin()
    compiled = torch.compile(user.rope, fullgraph=True, backend="eager")
    assert same(compiled(*arguments), user.rope(*arguments))


def test_compiled_code_watches_the_helpers(user, dynamo):
    q, k, cos, sin = q_k_cos_sin()
    compiled = torch.compile(user.rope, fullgraph=True, backend="eager")
    compiled(q, k, cos, sin)
    user.rotate_half = lambda x: x * 0
    assert same(compiled(q, k, cos, sin), (q * cos.unsqueeze(1), k * cos.unsqueeze(1)))
    user.apply_rotary = stranger
    assert same(compiled(q, k, cos, sin), (q * 2 + 1, k * 3))
    user.apply_rotary = lambda q, k, cos, sin: (q - 1, k)
    assert same(compiled(q, k, cos, sin), (q - 1, k))


def test_compiled_siblings_and_literals(tfr, dynamo):
    modules = [nn.Linear(4, 6), nn.Linear(4, 6)]

    def f(x):
        a, b = tfr.demo_linears(x, *modules)
        return tfr.demo_mul(nn.functional.silu, torch.cat([a, b], -1), packed="up_gate")

    x = torch.randn(3, 4)
    assert torch.equal(torch.compile(f, fullgraph=True, backend="eager")(x), f(x))


def test_recording_leaves_compiled_code_alone(tfr, user, dynamo):
    arguments = q_k_cos_sin()
    compiled = torch.compile(user.rope, fullgraph=True, backend="eager")
    with tfr.record() as calls:
        assert same(compiled(*arguments), user.rope(*arguments))
    assert calls == {("demo_rope", "half", "reference"): 1}, "only the eager call is counted"


def test_export(tfr, user):
    class M(nn.Module):
        def forward(self, q, k, cos, sin):
            return user.rope(q, k, cos, sin)

    arguments = q_k_cos_sin()
    program = torch.export.export(M(), arguments)
    assert same(program.module()(*arguments), user.rope(*arguments))


def test_gradients_and_vmap(tfr, user):
    q, k, cos, sin = q_k_cos_sin()
    q.requires_grad_()
    user.rope(q, k, cos, sin)[0].sum().backward()
    expected = q.detach().clone().requires_grad_()
    user.apply_rotary(expected, k, cos, sin)[0].sum().backward()
    assert torch.equal(q.grad, expected.grad)
    stack = [torch.stack([t, t]) for t in q_k_cos_sin()]
    assert same(
        torch.vmap(user.rope)(*stack), [torch.stack([t, t]) for t in user.rope(q, k, cos, sin)]
    )


def test_records_nest(tfr, user):
    arguments = q_k_cos_sin()
    with tfr.record() as outer:
        user.rope(*arguments)
        with tfr.record() as inner:
            user.rope(*arguments)
    user.rope(*arguments)
    assert sum(outer.values()) == 2 and sum(inner.values()) == 1


@pytest.mark.parametrize(
    "setting,path",
    [
        ({}, "reference"),
        ({"TFR_OPS": "off"}, "helper"),
        ({"TFR_OPS": "demo_rope:off"}, "helper"),
        ({"TFR_OPS": "demo_mul:off"}, "reference"),
        ({"TFR_OPS": "off,demo_rope:ref"}, "reference"),
        ({"TFR_DISABLE": "1"}, "helper"),
    ],
)
def test_switch(tfr, user, monkeypatch, setting, path):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    arguments = q_k_cos_sin()
    with tfr.record() as calls:
        assert same(user.rope(*arguments), user.apply_rotary(*arguments))
    assert calls == {("demo_rope", "half", path): 1}


@pytest.mark.kernels
@pytest.mark.parametrize(
    "setting,kernel",
    [
        ({}, True),
        ({"TFR_OPS": "auto"}, True),
        ({"TFR_OPS": "rope:ref"}, True),
        ({"TFR_OPS": "ref,rms_norm:auto"}, True),
        ({"TFR_OPS": "ref"}, False),
        ({"TFR_OPS": "off"}, False),
        ({"TFR_OPS": "rms_norm:ref"}, False),
        ({"TFR_FORCE": "rms_norm:reference"}, False),
        ({"TFR_DISABLE": "1"}, False),
    ],
)
def test_switch_of_a_kernel(tfr, monkeypatch, setting, kernel):
    monkeypatch.delenv("TFR_OPS", raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    with tfr.record() as calls:
        tfr.rms_norm(torch.randn(3, 8), torch.randn(8), 1e-5, order="cast_weight")
    path = modes.kernel_path() if kernel else "reference"
    assert calls == {("rms_norm", "cast_then_weight", path): 1}


def test_wrong_switch():
    done = subprocess.run(
        [sys.executable, "-c", "import tfrewrite; tfrewrite.ops"],
        env={
            **__import__("os").environ,
            "TFR_OPS": "fast",
            "TFR_RULES": str(__file__)[: -len("test_ops.py")] + "demo_rules",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode and "'fast' is neither auto, ref nor off" in done.stderr
