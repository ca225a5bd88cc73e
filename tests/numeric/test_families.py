"""Rewritten models give the numbers of the originals: 13 families, two dtypes, two attentions.

What was fused is held against expected_ops.json, so that equality with nothing fused fails; how
to renew it: families.py.
"""

import ast
import sys

import families
import harness
import pytest
import torch
from families import FAMILIES, VARIANTS

DTYPES = [torch.float32, torch.bfloat16]
CASES = [(f, v, attn, dtype) for f, v in VARIANTS for attn in FAMILIES[f].attn for dtype in DTYPES]
IDS = [f"{f}-{v}-{attn}-{str(dtype)[6:]}" for f, v, attn, dtype in CASES]


@pytest.fixture(scope="module")
def modules():
    """family -> (original module, rewritten module, recorder of the rewritten one's op calls)."""
    loaded = {}

    def get(name):
        if name not in loaded:
            recorder = harness.Recorder(keep=True)
            rewritten = harness.load_module(
                name, harness.rewrite_family(name).text, "rewritten", recorder
            )
            loaded[name] = harness.original_module(name), rewritten, recorder
        return loaded[name]

    return get


class Pair:
    """An original and a rewritten model with the same weights."""

    def __init__(self, modules, family, variant, attn, dtype):
        original, rewritten, self.recorder = modules(family)
        self.old = harness.build(original, FAMILIES[family], variant, attn, dtype)
        self.new = harness.build(rewritten, FAMILIES[family], variant, attn, dtype)
        harness.copy_weights(self.old, self.new)
        self.recorder.calls.clear()


@pytest.fixture(params=CASES, ids=IDS)
def case(request):
    return request.param


@pytest.fixture
def pair(case, modules):
    return Pair(modules, *case)


def label(check, case):
    return f"{check} {str(case[3])[6:]}"


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_prefill(pair, case, figures, padded):
    """Logits, every hidden state, attentions, and the cache: values, dtypes, strides."""
    batch = harness.inputs(pair.old, padded)
    figures(
        label("prefill", case),
        harness.compare(harness.prefill(pair.old, batch), harness.prefill(pair.new, batch)),
    )


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_cached_decode(pair, case, figures, padded):
    batch = harness.inputs(pair.old, padded)
    figures(
        label("decode", case),
        harness.compare(harness.decode(pair.old, batch), harness.decode(pair.new, batch)),
    )


@pytest.mark.parametrize("cache_implementation", ["dynamic", "static"])
def test_generate(pair, case, figures, cache_implementation):
    batch = harness.inputs(pair.old, padded=True)
    old, new = (harness.generate(m, batch, cache_implementation) for m in (pair.old, pair.new))
    figures(label(f"generate {cache_implementation}", case), harness.compare_generation(old, new))


def test_training_step(pair, case, figures):
    """Loss, and the gradient of every parameter."""
    batch = harness.inputs(pair.old)
    old, new = harness.train(pair.old, batch), harness.train(pair.new, batch)
    assert any(g is not None and bool(g.any()) for g in old["grad"].values())
    figures(label("training step", case), harness.compare(old, new))


def test_op_results(pair, case):
    """Each op result has the value, dtype and strides of what the original computes there."""
    batch = harness.inputs(pair.old)
    with torch.no_grad(), harness.Trace() as trace:
        pair.old(**batch, use_cache=True)
    pair.recorder.calls.clear()
    harness.prefill(pair.new, batch)
    assert harness.compare_op_results(pair.recorder.calls, trace) > 0


@pytest.mark.parametrize("family,variant", VARIANTS, ids=[f"{f}-{v}" for f, v in VARIANTS])
def test_ops_ran(modules, family, variant):
    """One forward pass calls each op as often as the table says, and none goes around its op.

    "helper" as a path means that the op called the file's own function in place of its formula.
    """
    from tfrewrite import ops

    pair = Pair(modules, family, variant, "eager", torch.float32)
    with ops.record() as paths:
        harness.prefill(pair.new, harness.inputs(pair.new))
    observed = families.calls_by_class(pair.recorder.calls)
    assert observed == families.expected_table()[family]["calls"][variant]
    assert {path for _, _, path in paths} == {"reference"}
    assert sum(paths.values()) == sum(observed.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_fused_as_expected(family):
    """The report's list of fused ops, class by class in source order."""
    observed = families.fused_by_class(harness.rewrite_family(family).fused)
    assert observed == families.expected_table()[family]["fused"]


@pytest.mark.parametrize("family", FAMILIES)
def test_report_agrees_with_text(family):
    """Every fused op of the report stands in the text, in that class, and no other."""
    rewritten = harness.rewrite_family(family)
    written: dict[str, list[str]] = {}
    for _, op, owner in harness.op_calls(rewritten.text):
        written.setdefault(owner, []).append(op)
    reported = families.fused_by_class(rewritten.fused)
    assert {k: sorted(v) for k, v in written.items()} == {k: sorted(v) for k, v in reported.items()}
    assert rewritten.changed == (rewritten.text != harness.original_text(family))


@pytest.mark.parametrize("family", FAMILIES)
def test_replaced_helper_is_called(modules, family, monkeypatch):
    """Whoever puts another rope function into the module gets it called, fused or not."""
    variant = next(iter(FAMILIES[family].variants))
    pair = Pair(modules, family, variant, "eager", torch.float32)
    batch = harness.inputs(pair.old)
    before = harness.prefill(pair.old, batch)
    for model in (pair.old, pair.new):
        module = sys.modules[type(model).__module__]
        inner = module.apply_rotary_pos_emb

        def other(q, k, cos, sin, *args, inner=inner, **kwargs):
            return inner(q, k, cos, -sin, *args, **kwargs)

        monkeypatch.setattr(module, "apply_rotary_pos_emb", other)
    after = harness.prefill(pair.old, batch)
    assert not torch.equal(before["logits"], after["logits"])
    harness.compare(after, harness.prefill(pair.new, batch))


def test_table_covers_every_family():
    table = families.expected_table()
    assert sorted(table) == sorted(FAMILIES)
    for name, family in FAMILIES.items():
        assert table[name]["fused"], name
        assert sorted(table[name]["calls"]) == sorted(family.variants), name
        for variant, calls in table[name]["calls"].items():
            assert calls, (name, variant)


def test_qwen3_is_fused_as_designed():
    """Written by hand from the design: a table renewed by mistake cannot hide a loss here."""
    fused = {
        k: sorted(v)
        for k, v in families.fused_by_class(harness.rewrite_family("qwen3").fused).items()
    }
    assert fused == {
        "Qwen3RMSNorm": ["rms_norm"],
        "Qwen3MLP": ["act_mul", "linears"],
        "Qwen3Attention": ["linears", "qk_norm_rope"],
        "Qwen3DecoderLayer": ["add_rms_norm"],
    }


def test_qwen3_linear_only_for_the_host():
    """o_proj, down_proj and lm_head become `linear` with --target host, and only there."""
    path = harness.modeling_path("qwen3")
    for target, expected in (
        ("auto", []),
        ("cuda", []),
        ("host", ["Qwen3Attention", "Qwen3ForCausalLM", "Qwen3MLP"]),
    ):
        fused = harness.rewrite_file(path, "--target", target).fused
        assert sorted(f["class"] for f in fused if f["op"] == "linear") == expected, target


@pytest.mark.parametrize("family", FAMILIES)
def test_state_and_identity(modules, family):
    """Same keys, shapes, class names, signatures and module tree: nothing of the state moves."""
    import inspect

    variant = next(iter(FAMILIES[family].variants))
    pair = Pair(modules, family, variant, "eager", torch.float32)
    for (a, m), (b, n) in zip(pair.old.named_modules(), pair.new.named_modules(), strict=True):
        assert (a, type(m).__name__) == (b, type(n).__name__)
        assert str(inspect.signature(type(m).forward)) == str(inspect.signature(type(n).forward))
        assert m.extra_repr() == n.extra_repr()
    shapes = [
        {k: (v.shape, v.dtype) for k, v in m.state_dict().items()} for m in (pair.old, pair.new)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_text_compiles(family):
    """Python's own parser takes the output, and a second pass over it changes nothing."""
    import tempfile
    from pathlib import Path

    rewritten = harness.rewrite_family(family)
    ast.parse(rewritten.text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"modeling_{family}.py"
        path.write_text(rewritten.text)
        again = harness.rewrite_file(path)
    assert not again.changed and again.text == rewritten.text
