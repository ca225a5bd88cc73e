"""Which groups prepare() finds in a class, which it refuses and why: one small module.

What people do to a whole model is in test_packing.py.
"""

import pytest
import tfrewrite
import torch
from test_models import close
from tfrewrite import ops as tfr
from tfrewrite import packing
from torch import nn

PACKED, ALREADY, APART = packing.PACKED, packing.ALREADY, packing.APART
REFUSED = packing.REFUSED


class Merged(nn.Module):
    """Results are looked at as flat memory; one call takes a part of what the other takes."""

    def __init__(self, bias=True, sizes=(16, 8, 8)):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, n, bias=bias) for n in sizes)

    def forward(self, x, other=None):
        if other is None:
            q, k, v = tfr.linears(x, self.q, self.k, self.v)
        else:
            q = self.q(x)
            k, v = tfr.linears(other, self.k, self.v)
        return [t.view(-1) for t in (q, k, v)]


@pytest.fixture
def merged():
    torch.manual_seed(0)
    return Merged()


def test_flat_views_of_results(merged):
    x, other = torch.randn(3, 5, 8), torch.randn(2, 8)
    with torch.no_grad():
        want = [merged(x), merged(x, other)]
        tfrewrite.prepare(merged, pack=True)
        got = [merged(x), merged(x, other)]
    for a, b in zip(want, got):
        for one, another in zip(a, b):
            assert one.shape == another.shape and close(one, another)
            assert another.is_contiguous()
            another.add_(1)  # results are memory of their own
    with torch.no_grad():
        assert all(close(a, b) for a, b in zip(want[0], merged(x)))


def test_a_call_within_another(merged):
    assert [g.state for g in tfrewrite.prepare(merged, pack=False).groups] == [APART, APART]
    made = tfrewrite.prepare(merged, pack=True)
    assert {g.members: g.state for g in made.groups} == {
        ("q", "k", "v"): PACKED,
        ("k", "v"): ALREADY,
    }
    assert len(tfrewrite.prepare(merged, pack=True).already) == 2


class Crossed(Merged):
    def forward(self, x):
        return *tfr.linears(x, self.q, self.k, self.v), *tfr.linears(x, self.v, self.k)


class Child(Merged):
    def forward(self, x, other=None):
        return super().forward(x, other)[::-1]


class Deeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Merged()

    def forward(self, x):
        return tfr.linears(x, self.inner.q, self.inner.k)


class Overridden(Merged):
    def forward(self, x, other=None):
        return [self.q(x)]


def test_calls_that_cross():
    model = Crossed()
    for _ in range(2):
        made = tfrewrite.prepare(model, pack=True)
        assert [g.state == REFUSED for g in made.groups] == [False, True]
        assert made.groups[1].reason == "v lies with q, k, v"


def test_where_calls_are_found(merged, monkeypatch):
    members = lambda m: [g.members for g in packing.state(m).groups]  # noqa: E731
    both = [("q", "k", "v"), ("k", "v")]
    assert members(Child()) == both and members(Overridden()) == []
    assert members(Deeper())[0] == ("inner.q", "inner.k")
    monkeypatch.setattr(Merged, "forward", Overridden.forward)
    assert members(merged) == []
    monkeypatch.undo()
    assert members(merged) == both


class PerInstance(nn.Module):
    """What one class may differ in: no v, no k at all, other sizes, a bias."""

    def __init__(self, shared=False, with_v=True, sizes=(16, 8, 8), bias=False):
        super().__init__()
        self.shared = shared
        self.q = nn.Linear(8, sizes[0], bias=bias)
        if not shared:
            self.k = nn.Linear(8, sizes[1], bias=bias)
            self.v = nn.Linear(8, sizes[2], bias=bias) if with_v else None

    def forward(self, x, kv=None):
        q, k, v = tfr.linears(
            x,
            self.q,
            self.k if not self.shared and kv is None else None,
            None if self.shared else self.v if kv is None else None,
        )
        return q, k, v


def test_instances_differ():
    torch.manual_seed(0)
    kinds = [{}, {"with_v": False}, {"shared": True}, {"sizes": (32, 4, 4), "bias": True}]
    model = nn.ModuleList(PerInstance(**kind) for kind in [*kinds, {}, {}])
    model[4].v.register_forward_hook(lambda m, a, o: o * 2)
    model[5].k = nn.Sequential(model[5].k)
    x = torch.randn(2, 8)
    with torch.no_grad():
        want = [m(x) for m in model]
        made = tfrewrite.prepare(model, pack=True)
        for old, m in zip(want, model):
            for a, b in zip(old, m(x)):
                assert (a is None and b is None) or close(a, b)
            assert len(m(x, kv=1)) == 3 and m(x, kv=1)[1:] == (None, None)
    assert [g.members for g in made.groups] == [
        *[("q", "k", "v"), ("q", "k"), ("q",)],
        *[("q", "k", "v")] * 3,
    ]
    states = [g.state for g in made.groups]
    assert states == [PACKED, PACKED, packing.ALONE, PACKED, REFUSED, REFUSED]
    assert made.groups[1].missing == ("v is None",)
    assert (
        made.groups[2].missing[0] == "k is None"
    )  # `kv` is the call's: the instance tells nothing
    assert made.groups[2].missing[1] == "v is not called: self.shared is True"
    text = str(made)
    assert "PerInstance x1: q, k (v is None): packed" in text
    assert "refused: v has a forward hook (first: 4)" in text
    assert "refused: k is a torch.nn.modules.container.Sequential (first: 5)" in text
    assert len(tfrewrite.prepare(model, pack=True).already) == 3


def test_no_source():
    names = {"nn": nn, "tfr": tfr, "__name__": "gone"}
    exec(
        "class Gone(nn.Module):\n"
        "    def forward(self, x):\n        return tfr.linears(x, self.a, self.b)\n",
        names,
    )
    made = tfrewrite.prepare(names["Gone"](), pack=True)
    assert made.unread and "not looked at: Gone.forward" in str(made)


def test_bias(merged):
    made = tfrewrite.prepare(merged, pack=True)
    assert made.groups[0].copied == 32 * 8 * 4 + 32 * 4
    for what in ("weight", "bias"):
        a, b, c = (getattr(m, what) for m in (merged.q, merged.k, merged.v))
        assert a.data_ptr() + a.nbytes == b.data_ptr() and b.data_ptr() + b.nbytes == c.data_ptr()
    merged.k.bias.data = merged.k.bias.data.clone()
    assert packing.state(merged).groups[0].state == APART
    assert tfrewrite.prepare(merged, pack=True).groups[0].copied == 32 * 4


def test_some_biases(merged):
    merged.k.bias = None
    x = torch.randn(3, 8)
    with torch.no_grad():
        want = merged(x)
        made = tfrewrite.prepare(merged, pack=True)
        assert all(map(close, want, merged(x)))
    assert made.groups[0].state == PACKED
    assert made.groups[0].reason == "the weights alone: some have a bias and some have none"
    assert len(tfrewrite.prepare(merged, pack=True).already) == 2


# ------------------------------------------------------------------ refused
def mixed_dtype(m):
    m.k.weight.data = m.k.weight.data.double()


def mixed_in_features(m):
    m.k = nn.Linear(4, 8)


def frozen(m):
    m.k.weight.requires_grad_(False)


def transposed(m):
    m.k.weight.data = torch.randn(8, 8).t()


def part_of_a_matrix(m):
    m.k.weight.data = torch.randn(9, 8)[1:]


def over_a_buffer(m):
    m.register_buffer("all", torch.randn(8, 8))
    m.k.weight.data = m.all


def sliced_storage(m):
    """As safetensors hands out tensors: storages of their own over the same bytes."""
    whole = torch.randn(12, 8)
    m.k.weight.data = torch.empty(0).set_(whole.untyped_storage()[:256], 0, (8, 8))
    m.v.weight.data = torch.empty(0).set_(whole.untyped_storage()[128:], 0, (8, 8))


def shared_memory(m):
    m.share_memory()


def empty(m):
    m.k = nn.Linear(8, 0)


def weight_norm(m):
    nn.utils.parametrizations.weight_norm(m.k)


def pruned(m):
    import torch.nn.utils.prune as prune

    prune.l1_unstructured(m.k, "weight", 3)


def flattened(m):
    m.k.weight = nn.Parameter(m.k.weight.detach().flatten())


def another_device(m):
    m.k.to("meta")


def extra_parameter(m):
    m.k.scale = nn.Parameter(torch.ones(1))


class Int8Weight(torch.Tensor):
    """Rows of int8 with a scale each, as quantizers make them."""

    @staticmethod
    def __new__(cls, weight):
        return torch.Tensor._make_wrapper_subclass(cls, weight.shape, dtype=weight.dtype)

    def __init__(self, weight):
        self.scale = weight.detach().abs().amax(1, keepdim=True) / 127
        self.rows = (weight.detach() / self.scale).round().to(torch.int8)

    @classmethod
    def __torch_dispatch__(cls, function, types, args, kwargs=None):
        if function is torch.ops.aten.detach.default:
            return args[0]
        plain = lambda t: t.rows * t.scale if isinstance(t, cls) else t  # noqa: E731
        return function(*torch.utils._pytree.tree_map(plain, args), **(kwargs or {}))


def wrapped(m):
    m.k.weight = nn.Parameter(Int8Weight(m.k.weight), requires_grad=False)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (mixed_dtype, "mixed dtypes"),
        (mixed_in_features, "mixed in_features"),
        (frozen, "mixed requires_grad"),
        (transposed, "k has a weight that is not contiguous"),
        (part_of_a_matrix, "k.weight is a part of a larger storage"),
        (over_a_buffer, "k.weight shares memory with all"),
        (sliced_storage, "k.weight shares memory with v.weight"),
        (shared_memory, "q.weight is in memory shared with other processes"),
        pytest.param(
            empty,
            "k has a weight that is empty",
            marks=pytest.mark.filterwarnings("ignore:Initializing zero-element"),
        ),
        (weight_norm, "k is a torch.nn.utils.parametrize.ParametrizedLinear"),
        (pruned, "k has a forward pre-hook"),
        (flattened, "k has no weight of two dimensions"),
        (another_device, "k has a weight that is on device meta"),
        (extra_parameter, "k has other parameters than weight and bias"),
        (wrapped, "k has a weight that is a test_packing_groups.Int8Weight"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused(merged, change, reason):
    change(merged)
    x = torch.randn(2, 8)

    def run():
        try:
            return merged(x)
        except (RuntimeError, TypeError) as error:  # as the model would have failed before
            return type(error)

    with torch.no_grad():
        before = run()
        memory = [(id(p), p.data_ptr()) for p in merged.q.parameters()]
        made = tfrewrite.prepare(merged, pack=True)
        after = run()
    group = made.groups[0]
    assert (group.state, group.reason) == (REFUSED, reason)
    assert [(id(p), p.data_ptr()) for p in merged.q.parameters()] == memory
    assert before is after or all(map(torch.equal, before, after))


def test_refused_for_alignment():
    model = Merged(sizes=(16, 3, 8), bias=True)
    made = tfrewrite.prepare(model, pack=True)
    assert made.groups[0].reason == (
        "the weights alone: the next bias would not start at a multiple of 16 bytes"
    )
    model = Merged(sizes=(3, 3, 8)).bfloat16()
    model.q, model.k, model.v = (nn.Linear(5, n) for n in (3, 3, 8))
    assert "multiple of 16" in tfrewrite.prepare(model, pack=True).refused[0].reason
