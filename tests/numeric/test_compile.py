"""torch.compile of rewritten models against the original in eager mode. Slow.

In graphs only products stay ops of ours, where kernels run: Inductor fuses the rest by itself.
"""

import harness
import kernel_checks
import modes
import pytest
import torch
from families import FAMILIES, expected_table

pytestmark = pytest.mark.slow
INDUCTOR = [
    "qwen3",
    "gemma3",
    "phi3",
]  # separate q/k norms and packed MLP, `1 + weight` norms, partial rope
# Inductor does what aot_eager does, and more.
CASES = [(modes.REFERENCES, f, "aot_eager") for f in FAMILIES if f not in INDUCTOR]
CASES += [(modes.REFERENCES, f, "inductor") for f in INDUCTOR]
WITH_KERNELS = [(modes.KERNELS, f, "aot_eager") for f in ("qwen3", "glm4", "stablelm")]
WITH_KERNELS += [(modes.KERNELS, "qwen3", "inductor")]


def calls(family):
    """The references that a family's first variant calls, with a kernel and as they are."""
    paths = expected_table()[family]["paths"]
    return frozenset(paths[next(iter(FAMILIES[family].variants))])


# Of families that call the same references one is trained: every graph is held in test_forward, and
# what is differentiated are references.
FIRST = {calls(f): f for f in reversed(FAMILIES)}
TRAINED = [case for case in CASES if FIRST[calls(case[1])] == case[1]]


def parameters(cases):
    return [modes.parameter(*case, id="-".join(case[1:])) for case in cases]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def pair(mode, family, dtype=torch.float32):
    attn, target = FAMILIES[family].attn[-1], "host" if mode == modes.KERNELS else "auto"
    variant = next(iter(FAMILIES[family].variants))
    text = harness.rewrite_family(family, target).text
    rewritten = harness.load_module(family, text, f"compiled_{target}")
    old, new = (
        harness.build(module, FAMILIES[family], variant, attn, dtype)
        for module in (harness.original_module(family), rewritten)
    )
    harness.copy_weights(old, new)
    return old, new


class Backend:
    """A backend that keeps the names of the functions in the graphs it is given."""

    def __init__(self, name):
        self.compile = torch._dynamo.lookup_backend(name)
        self.names, self.graphs = set(), 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        self.names |= {str(n.target) for n in graph.graph.nodes if n.op == "call_function"}
        return self.compile(graph, inputs)

    def ops(self):
        return {n.split(".")[1] for n in self.names if n.startswith("tfr.")}


@pytest.mark.parametrize("case", parameters(CASES + WITH_KERNELS))
def test_forward(case, figures):
    """One graph without a break, in inference, against the original in eager mode."""
    mode, family, backend = case
    old, new = pair(mode, family)
    batch, seen = harness.inputs(old), Backend(backend)
    with modes.running(mode), torch.no_grad():
        expected = old(**batch, use_cache=False)
        got = torch.compile(new, backend=seen, fullgraph=True)(**batch, use_cache=False)
    figures(f"{mode}: compiled forward {backend}", harness.compare(dict(expected), dict(got)))
    assert seen.graphs == 1
    assert seen.ops() == ({"linear", "linears"} if mode == modes.KERNELS else set())


@pytest.mark.kernels
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_bfloat16_forward(backend, figures):
    """The graph calls the kernels of the products, whose errors are those of torch's."""
    old, new = pair(modes.KERNELS, "qwen3", torch.bfloat16)
    batch, seen = harness.inputs(old), Backend(backend)
    with modes.running(modes.KERNELS), torch.no_grad():
        expected, exact = (
            m(**batch, use_cache=False) for m in (old, kernel_checks.exact_model(old))
        )
        got = torch.compile(new, backend=seen, fullgraph=True)(**batch, use_cache=False)
    assert {"tfr.linears.m2", "tfr.linears.m3", "tfr.linear.m1"} <= seen.names
    found = harness.compare(dict(expected), dict(got), exact=dict(exact))
    figures(f"kernels: compiled bfloat16 forward {backend}", found)


@pytest.mark.parametrize("case", parameters(TRAINED + WITH_KERNELS))
def test_training_step(case, figures):
    """Loss and gradients through the compiled graph, which has no kernel in it."""
    mode, family, backend = case
    old, new = pair(mode, family)
    batch, seen = harness.inputs(old), Backend(backend)
    expected = harness.train(old, batch)
    with modes.running(mode):
        new.compile(backend=seen, fullgraph=True)
        got = harness.train(new, batch)
    assert seen.graphs >= 1 and not seen.ops()
    figures(
        f"{mode}: compiled training step {backend}", harness.compare(expected, got, strides=False)
    )


DECODE = [
    (modes.REFERENCES, "qwen3", "inductor"),
    (modes.REFERENCES, "llama", "aot_eager"),
    (modes.REFERENCES, "gemma2", "aot_eager"),
    (modes.KERNELS, "qwen3", "inductor"),
]


@pytest.mark.parametrize("case", parameters(DECODE))
def test_decode_with_static_cache(case, figures):
    """The step that generate compiles: one token on a static cache."""
    from transformers import StaticCache

    mode, family, backend = case
    old, new = pair(mode, family)
    batch, seen = harness.inputs(old), Backend(backend)
    results = []
    compiled = torch.compile(new, backend=seen, fullgraph=True)
    for model, run in ((old, old), (new, compiled)):
        kv = StaticCache(config=model.config, max_cache_len=16)
        with modes.running(mode), torch.no_grad():
            model(**batch, cache=kv, use_cache=True)
            mask = torch.cat(
                [batch["attention_mask"], torch.ones(harness.BATCH, 1, dtype=torch.long)], 1
            )
            ids = torch.full((harness.BATCH, 1), 7)
            results.append(run(input_ids=ids, attention_mask=mask, cache=kv, use_cache=True).logits)
    assert seen.ops() == ({"linear", "linears"} if mode == modes.KERNELS else set())
    figures(
        f"{mode}: compiled decode {backend}",
        harness.compare({"logits": results[0]}, {"logits": results[1]}),
    )
