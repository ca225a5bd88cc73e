"""torch.compile of rewritten models against the original in eager mode (float32). Slow."""

import harness
import pytest
import torch
from families import FAMILIES

pytestmark = pytest.mark.slow
INDUCTOR = [
    "qwen3",
    "gemma3",
    "phi3",
]  # separate q/k norms and packed MLP, `1 + weight` norms, partial rope
CASES = [(f, "aot_eager") for f in FAMILIES] + [(f, "inductor") for f in INDUCTOR]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def pair(family, variant, text=None):
    attn = FAMILIES[family].attn[-1]
    text = harness.rewrite_family(family).text if text is None else text
    old = harness.build(harness.original_module(family), FAMILIES[family], variant, attn)
    new = harness.build(
        harness.load_module(family, text, "compiled"), FAMILIES[family], variant, attn
    )
    harness.copy_weights(old, new)
    return old, new


@pytest.mark.parametrize("family,backend", CASES, ids=[f"{f}-{b}" for f, b in CASES])
def test_forward(family, backend, figures):
    """One graph without a break, in inference, against the original in eager mode."""
    old, new = pair(family, next(iter(FAMILIES[family].variants)))
    batch = harness.inputs(old)
    compiled = torch.compile(new, backend=backend, fullgraph=True)
    with torch.no_grad():
        expected, got = old(**batch, use_cache=False), compiled(**batch, use_cache=False)
    figures(f"compiled forward {backend}", harness.compare(dict(expected), dict(got)))


@pytest.mark.parametrize("family,backend", CASES, ids=[f"{f}-{b}" for f, b in CASES])
def test_training_step(family, backend, figures):
    """Loss and gradients through the compiled graph."""
    old, new = pair(family, next(iter(FAMILIES[family].variants)))
    batch = harness.inputs(old)
    expected = harness.train(old, batch)
    new.compile(backend=backend, fullgraph=True)
    figures(
        f"compiled training step {backend}",
        harness.compare(expected, harness.train(new, batch), strides=False),
    )


@pytest.mark.parametrize(
    "family,backend", [("qwen3", "inductor"), ("llama", "aot_eager"), ("gemma2", "aot_eager")]
)
def test_decode_with_static_cache(family, backend, figures):
    """The step that generate compiles: one token on a static cache."""
    from transformers import StaticCache

    old, new = pair(family, next(iter(FAMILIES[family].variants)))
    batch = harness.inputs(old)
    results = []
    for model, run in ((old, old), (new, torch.compile(new, backend=backend, fullgraph=True))):
        kv = StaticCache(config=model.config, max_cache_len=16)
        with torch.no_grad():
            model(**batch, cache=kv, use_cache=True)
            mask = torch.cat(
                [batch["attention_mask"], torch.ones(harness.BATCH, 1, dtype=torch.long)], 1
            )
            ids = torch.full((harness.BATCH, 1), 7)
            results.append(run(input_ids=ids, attention_mask=mask, cache=kv, use_cache=True).logits)
    figures(
        f"compiled decode {backend}",
        harness.compare({"logits": results[0]}, {"logits": results[1]}),
    )
