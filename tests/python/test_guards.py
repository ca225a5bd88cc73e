"""What a call must be for a kernel to take it; everything else goes to the reference."""

import importlib.util
import sys

import modes
import pytest
import torch
from tfrewrite import guards
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.kernels


@pytest.fixture(autouse=True)
def kernels():
    with modes.running(modes.KERNELS):
        yield


@pytest.fixture
def norm(tfr):
    """Calls rms_norm and says by which path, beside the reference's own result."""

    def call(x, weight, eps=1e-5):
        with tfr.record() as counts:
            result = tfr.rms_norm(x, weight, eps, order="cast_weight")
        ((_, _, path),) = counts
        with modes.running(modes.REFERENCES):
            expected = tfr.rms_norm(x, weight, eps, order="cast_weight")
        torch.testing.assert_close(result, expected, equal_nan=True)
        assert result.stride() == expected.stride() and result.dtype == expected.dtype
        assert result.requires_grad == expected.requires_grad
        return path

    return call


def x_and_weight(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=generator).to(dtype) for s in ((3, 5, 8), (8,))]


# ------------------------------------------------------------------ tensors
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_plain_tensors(norm, dtype):
    x, weight = x_and_weight(dtype)
    for view in (x, x[:, :0], x[0], x.transpose(0, 1), x[..., :1].expand(3, 5, 8), x[:, ::2]):
        assert norm(view, weight) == modes.kernel_path()
    assert norm(x, nn.Parameter(weight, requires_grad=False)) == modes.kernel_path()
    with torch.no_grad():
        assert norm(x, nn.Parameter(weight)) == modes.kernel_path()
    with torch.inference_mode():
        assert norm(x * 1, nn.Parameter(weight)) == modes.kernel_path()


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.double(),
        lambda t: t.half(),
        lambda t: t.as_subclass(Subclass),
        lambda t: t.clone().requires_grad_(),
    ],
    ids=["float64", "float16", "subclass", "gradient"],
)
def test_other_tensors(norm, change):
    x, weight = x_and_weight()
    assert norm(change(x), weight) == "reference"
    assert norm(x, change(weight)) == "reference"


def test_transposed_input_keeps_its_layout(norm):
    _, weight = x_and_weight()
    for x in (torch.randn(8, 5).t(), torch.randn(8, 2, 3).permute(2, 1, 0)):
        assert norm(x, weight) == "reference"
    assert norm(torch.randn(5, 16)[:, ::2], weight) == modes.kernel_path()


def test_wrong_arguments_fail_as_before(tfr):
    x, weight = x_and_weight()
    for arguments in ((x, weight[:5], 1e-5), (x, None, None), (None, weight, 1e-5)):
        errors = []
        for mode in (modes.REFERENCES, modes.KERNELS):
            with modes.running(mode), pytest.raises(Exception) as caught:
                tfr.rms_norm(*arguments, order="cast_weight")
            errors.append((caught.type, str(caught.value)))
        assert errors[0] == errors[1]


# ------------------------------------------------------------------ who watches
class SeeFunctions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class SeeOperators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [SeeFunctions, SeeOperators, lambda: torch.autocast("cpu")])
def test_modes_see_the_operators(tfr, mode):
    x, weight = x_and_weight()
    with mode(), tfr.record() as counts:
        tfr.rms_norm(x, weight, 1e-5, order="cast_weight")
    assert counts == {("rms_norm", "cast_then_weight", "reference"): 1}


def test_transforms(tfr):
    x, weight = x_and_weight()

    def f(x):
        return tfr.rms_norm(x, weight, 1e-5, order="cast_weight")

    expected = f(x)
    torch.testing.assert_close(torch.vmap(f)(x), expected)
    torch.testing.assert_close(torch.func.jvp(f, (x,), (x,))[0], expected)
    assert torch.func.grad(lambda x: f(x).sum())(x).shape == x.shape
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        assert torch.autograd.forward_ad.unpack_dual(f(dual)).tangent is not None
    traced = torch.jit.trace(f, (x,))
    assert "tfr::" not in str(traced.graph)
    torch.testing.assert_close(traced(x), expected)


def test_export_has_the_operators_of_the_reference(tfr):
    x, _ = x_and_weight()

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            return tfr.linears(x, self.a, self.b)

    with torch.no_grad():
        program = torch.export.export(M(), (x,))
    assert "tfr" not in str(program.graph)


# ------------------------------------------------------------------ norms as modules
TEXT = """
import torch
from torch import nn
from tfrewrite import ops as tfr

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-3
        self.__eps = 1e-3
    def forward(self, x):
        \"\"\"A docstring.\"\"\"
        return tfr.rms_norm(x, self.weight, self.eps, order="cast_weight")

class Literal(Norm):
    def forward(self, x):
        return tfr.rms_norm(x, self.weight, 1e-3, order="one_plus_cast")

class NoWeight(Norm):
    def forward(self, x):
        return tfr.rms_norm(x, None, self.eps, order="cast")

class Private(Norm):
    def __init__(self):
        super().__init__()
        self.__eps = 1e-3
    def forward(self, x):
        return tfr.rms_norm(x, self.weight, self.__eps, order="cast_weight")

class More(Norm):
    def forward(self, x):
        return tfr.rms_norm(x, self.weight, self.eps, order="cast_weight") * 2

class Other(Norm):
    def forward(self, x, y=None):
        return tfr.rms_norm(y, self.weight, self.eps, order="cast_weight")
"""


@pytest.fixture
def user(tmp_path, monkeypatch):
    path = tmp_path / "user_norms.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("user_norms", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "user_norms", module)
    spec.loader.exec_module(module)
    return module


def test_norms_that_are_read(user):
    weight, eps, _ = guards.norm(user.Norm())
    assert weight is not None and eps == 1e-3
    assert guards.norm(user.Literal())[1] == 1e-3
    assert guards.norm(user.NoWeight())[0] is None
    numbers = {guards.norm(c())[2] for c in (user.Norm, user.Literal, user.NoWeight)}
    assert len(numbers) == 3


@pytest.mark.parametrize("name", ["Private", "More", "Other"])
def test_norms_that_are_called(tfr, user, name):
    norm = getattr(user, name)()
    assert guards.norm(norm) is None
    if name == "Other":
        return
    x, residual = torch.randn(3, 8), torch.randn(3, 8)
    with torch.no_grad():
        a, b = tfr.add_rms_norm(x, residual, norm)
        assert torch.equal(a, norm(x + residual)) and torch.equal(b, x + residual)


def changed_forward(norm):
    norm.forward = lambda x: x


def eps_as_text(norm):
    norm.eps = "1e-3"


def without_weight(norm):
    norm.weight = None


@pytest.mark.parametrize(
    "change",
    [
        lambda norm: norm.register_forward_hook(lambda *_: None),
        lambda norm: norm.register_forward_pre_hook(lambda *_: None),
        lambda norm: norm.register_full_backward_hook(lambda *_: None),
        changed_forward,
        eps_as_text,
        without_weight,
        lambda norm: norm.compile(backend="eager"),
    ],
    ids=["hook", "pre hook", "backward hook", "forward", "eps", "weight", "compiled"],
)
def test_changed_norms_are_called(user, change):
    norm = user.Norm()
    change(norm)
    assert guards.norm(norm) is None


def test_global_hook(user):
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert guards.norm(user.Norm()) is None
        assert guards.linears((nn.Linear(2, 2),)) is None
    finally:
        handle.remove()
    assert guards.norm(user.Norm()) and guards.linears((nn.Linear(2, 2),))


def test_eps_changed_later_counts(tfr, user):
    norm, x = user.Norm(), torch.randn(3, 8)
    with torch.no_grad():
        before = tfr.add_rms_norm(x, x, norm)[0]
        norm.eps = 10.0
        after = tfr.add_rms_norm(x, x, norm)[0]
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, norm(x + x))


def test_norms_are_not_read_in_graphs(tfr, user):
    """Reading one takes inspect and ast, which Dynamo cannot trace."""
    torch._dynamo.reset()
    norm = user.Norm()
    compiled = torch.compile(
        lambda x: tfr.add_rms_norm(x, x, norm), fullgraph=True, backend="eager"
    )
    x = torch.randn(3, 8)
    with torch.no_grad():
        for a, b in zip(compiled(x), tfr.add_rms_norm(x, x, norm), strict=True):
            torch.testing.assert_close(a, b)
