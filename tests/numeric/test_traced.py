"""A second lowering, by torch: what `verify --symbolic` says of text, make_fx says of what runs.

Each rewritten class of tiny models is called with the inputs that it gets in its model, once as the
original and once rewritten, with every op as its reference, and traced down to aten. The two graphs
must compute the same: equal by value numbering, which leaves out what is not used, the order of
independent nodes and of the operands of a sum or product, and copies that change nothing. Nothing
is shared with the C program. bfloat16, so that every cast is a node.
"""

import importlib.util
import warnings
from pathlib import Path

import harness
import modes
import pytest
import torch
from families import FAMILIES
from torch.func import functional_call, functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

aten = torch.ops.aten
COMMUTES = {aten.add.Tensor, aten.mul.Tensor}
WHERE = {("layout", torch.strided), ("device", torch.device("cpu"))}  # of every tensor here
SAME = {aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default}


class Numbers:
    """Value numbers of aten graphs: two nodes have the same one if they compute the same."""

    def __init__(self):
        self.table = {}

    def outputs(self, graph_module) -> list:
        of = {}
        for node in graph_module.graph.nodes:
            args = [tree_map(lambda a: of.get(a, a), a) for a in node.args]
            if node.op == "output":
                return tree_leaves(args)
            if node.target in SAME:
                of[node] = args[0]
            elif node.op == "placeholder":
                of[node] = self.number("input", node.target)
            elif node.op == "get_attr":
                value = getattr(graph_module, node.target)
                of[node] = self.number("constant", value.dtype, value.tolist())
            elif node.target is aten.mul.Tensor and args[0] == args[1]:
                # torch computes a square so: canon.py
                of[node] = self.number(aten.pow.Tensor_Scalar, [args[0], 2], {})
            else:
                if node.target in COMMUTES:
                    args[:2] = sorted(args[:2], key=repr)
                kwargs = {k: v for k, v in sorted(node.kwargs.items()) if (k, v) not in WHERE}
                of[node] = self.number(node.target, args, kwargs)
        raise AssertionError("a graph without output")

    def number(self, *key) -> str:
        return f"%{self.table.setdefault(repr(key), len(self.table))}"


def trace(module, args, kwargs):
    """The aten graph of one call, of parameters, buffers and all tensors among the arguments."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    leaves, shape = tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def run(state, tensors):
        filled = list(leaves)
        for place, tensor in zip(places, tensors):
            filled[place] = tensor
        a, k = tree_unflatten(filled, shape)
        out = functional_call(module, state, a, k)
        return [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]

    tensors = [leaves[i].clone() for i in places]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_fx(functionalize(run, remove="mutations"))(state, tensors)


_graphs: dict[torch.nn.Module, torch.fx.GraphModule] = {}


def same(old, new, call) -> bool:
    """Traces both modules on the call of the first; whether the two graphs are one."""
    with modes.running(modes.REFERENCES):
        if old not in _graphs:
            _graphs[old] = trace(old, *call)
        graphs = _graphs[old], trace(new, *call)
    numbers = Numbers()
    return numbers.outputs(graphs[0]) == numbers.outputs(graphs[1])


def calls(model, classes: set[str]) -> dict[str, tuple]:
    """The first instance of each class by its path, with what it is called with."""
    found, wanted = {}, {}
    for path, module in model.named_modules():
        name = type(module).__name__
        if name in classes:
            wanted.setdefault(name, (path, module))

    def keep(path):
        def hook(module, args, kwargs):
            found.setdefault(path, (args, kwargs))

        return hook

    hooks = [m.register_forward_pre_hook(keep(p), with_kwargs=True) for p, m in wanted.values()]
    with torch.no_grad():
        model(**harness.inputs(model), use_cache=False)
    for hook in hooks:
        hook.remove()
    return found


@pytest.fixture(scope="module")
def pairs():
    """family -> original model, what builds its like from a text, the calls of rewritten classes"""
    made = {}

    def get(name):
        if name not in made:
            family, variant = FAMILIES[name], next(iter(FAMILIES[name].variants))
            rewritten = harness.rewrite_family(name)

            def build(module):
                return harness.build(module, family, variant, "eager", torch.bfloat16)

            old = build(harness.original_module(name))
            classes = {e["class"] for e in rewritten.fused}

            def other(text, tag):
                new = build(harness.load_module(name, text, tag))
                harness.copy_weights(old, new)
                return new

            made[name] = old, other, calls(old, classes), rewritten.text
        return made[name]

    return get


@pytest.mark.parametrize("name", FAMILIES)
def test_graphs_are_equal(pairs, name):
    old, other, found, text = pairs(name)
    new = other(text, "traced")
    assert found, "no rewritten class runs"
    different = [
        f"{path}: {type(old.get_submodule(path)).__name__}"
        for path, call in found.items()
        if not same(old.get_submodule(path), new.get_submodule(path), call)
    ]
    assert not different


def wrong_rewrites():
    """The seeds of tests/corpus, by which verify --symbolic is held."""
    path = Path(__file__).parents[1] / "corpus" / "wrong_rewrites.py"
    spec = importlib.util.spec_from_file_location("wrong_rewrites", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SEEDS = wrong_rewrites()
SEEDED = ("qwen3", "olmo2", "gemma2")
# Kinds that change what the traced calls compute; others change what only other calls show.
SEEN = """results_swapped operands_of_add_rms_norm_swapped gate_and_up_swapped modules_swapped
module_twice query_and_key_swapped cos_and_sin_swapped norms_swapped activation_is_another
eps_is_a_number eps_is_another weight_has_an_offset input_is_cast order_is_another layout_is_another
input_changed_in_between result_changed result_rebound scale_dropped
mask_missing returns_early dims_are_others""".split()


def changed(pairs, change, module):
    """(family, original, changed, calls by path) of each family of SEEDED that has a place for it."""
    places = 0
    for name in SEEDED:
        old, other, found, text = pairs(name)
        for data in SEEDS.mutants(change, SEEDS.Text(text.encode()), 1):
            places += 1
            yield name, old, other(data.decode(), module), found
    assert places, "no place for this kind"


@pytest.mark.parametrize("kind", SEEN)
def test_wrong_rewrite_is_seen(pairs, kind):
    """In every family of three that has a place for it."""
    for name, old, new, calls in changed(pairs, SEEDS.WRONG[kind], f"wrong_{kind}"):
        assert any(
            not_the_same(old.get_submodule(path), new.get_submodule(path), call)
            for path, call in calls.items()
        ), f"{kind} in {name}"


def not_the_same(old, new, call) -> bool:
    try:
        return not same(old, new, call)
    except Exception:  # it does not run at all
        return True


@pytest.mark.parametrize(
    "kind", ["result_renamed", "returned_by_a_name", "pure_statements_reordered"]
)
def test_equal_change_is_equal(pairs, kind):
    for name, old, new, calls in changed(pairs, SEEDS.EQUAL[kind], f"equal_{kind}"):
        assert all(
            same(old.get_submodule(path), new.get_submodule(path), call)
            for path, call in calls.items()
        ), f"{kind} in {name}"
