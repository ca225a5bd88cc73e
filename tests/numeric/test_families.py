"""Rewritten models give the numbers of the originals: 13 families, two dtypes, two attentions.

With references and with the ops off to the bit, with kernels within their bounds. What was fused,
and by what it was computed, is held against expected_ops.json, so that equality with nothing fused
fails; how to renew it: families.py.

    TFR_JIT=off pytest tests/numeric/test_families.py -m kernels    the same with the generic build
"""

import ast
import sys

import families
import harness
import kernel_checks
import modes
import pytest
import torch
from families import FAMILIES, VARIANTS
from tfrewrite import ops

DTYPES = [torch.float32, torch.bfloat16]


def cases():
    """(mode, family, variant, attention, dtype): everything with references, else a selection."""
    for number, (family, variant) in enumerate(VARIANTS):
        attentions = FAMILIES[family].attn
        for attn in attentions:
            for dtype in DTYPES:
                id = f"{family}-{variant}-{attn}-{str(dtype)[6:]}"
                case = (family, variant, attn, dtype)
                yield modes.parameter(modes.REFERENCES, *case, id=id)
                if attn == attentions[number % len(attentions)]:
                    yield modes.parameter(modes.KERNELS, *case, id=id)
                    if variant == next(iter(FAMILIES[family].variants)):
                        yield modes.parameter(modes.OFF, *case, id=id)
                        if dtype == torch.bfloat16:
                            yield modes.parameter(modes.TORCH, *case, id=id)


WITH_KERNELS = (modes.KERNELS, modes.TORCH)


def target(mode):
    """Kernels run on files rewritten for the host, which have one op more: `linear`."""
    return "host" if mode in WITH_KERNELS else "auto"


@pytest.fixture(scope="module")
def modules():
    """(family, mode) -> (original module, rewritten module, recorder of its op calls).

    Without a recorder for kernels: they read a norm's source, in which no other call may stand.
    """
    loaded = {}

    def get(name, mode):
        key = name, target(mode)
        if key not in loaded:
            recorder = None if mode in WITH_KERNELS else harness.Recorder(keep=True)
            text = harness.rewrite_family(*key).text
            rewritten = harness.load_module(name, text, f"rewritten_{key[1]}", recorder)
            loaded[key] = harness.original_module(name), rewritten, recorder
        return loaded[key]

    return get


_originals: dict[str, dict] = {}


@pytest.fixture
def originals(request):
    """What originals computed in this test, which is the same for every mode."""
    test = request.function.__name__
    if test not in _originals:
        _originals.clear()
    return _originals.setdefault(test, {})


_models: dict[tuple, torch.nn.Module] = {}


def model(module, family, variant, attn, dtype):
    """Built once for all tests: none leaves a model changed."""
    key = module.__name__, variant, attn, dtype
    if key not in _models:
        _models[key] = harness.build(module, FAMILIES[family], variant, attn, dtype)
    return _models[key]


class Pair:
    """An original and a rewritten model with the same weights."""

    def __init__(self, modules, originals, mode, *case):
        original, rewritten, self.recorder = modules(case[0], mode)
        self.mode, self.case, self.results = mode, case, originals
        self.old, self.new = model(original, *case), model(rewritten, *case)
        harness.copy_weights(self.old, self.new)
        if self.recorder:
            self.recorder.calls.clear()

    def original(self, run, *arguments, **keywords):
        key = (self.case, run.__name__, *map(str, arguments))
        if key not in self.results:
            self.results[key] = run(self.old, *arguments, **keywords)
        return self.results[key]

    def exact(self, run, *arguments, **keywords):
        """The original's results in float32, where those of bfloat16 are judged by them."""
        if self.mode not in WITH_KERNELS or self.case[3] != torch.bfloat16:
            return None
        key = (self.case, "exact", run.__name__, *map(str, arguments))
        if key not in self.results:
            model = kernel_checks.exact_model(self.old)
            self.results[key] = run(model, *arguments, **keywords)
        return self.results[key]

    def compare(self, run, *arguments):
        old, new = self.original(run, *arguments), run(self.new, *arguments)
        return harness.compare(old, new, exact=self.exact(run, *arguments))


@pytest.fixture(params=cases())
def case(request):
    with modes.running(request.param[0]):
        yield request.param


@pytest.fixture
def pair(case, modules, originals):
    return Pair(modules, originals, *case)


@pytest.fixture
def plain_pair(modules, originals):
    """The first variant of a family in float32, with references."""

    def get(family):
        variant = next(iter(FAMILIES[family].variants))
        return Pair(modules, originals, modes.REFERENCES, family, variant, "eager", torch.float32)

    with modes.running(modes.REFERENCES):
        yield get


def label(check, case):
    return f"{case[0]}: {check} {str(case[4])[6:]}"


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_prefill(pair, case, figures, padded):
    """Logits, every hidden state, attentions, and the cache: values, dtypes, strides."""
    batch = harness.inputs(pair.old, padded)
    figures(label("prefill", case), pair.compare(harness.prefill, batch))


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_cached_decode(pair, case, figures, padded):
    batch = harness.inputs(pair.old, padded)
    figures(label("decode", case), pair.compare(harness.decode, batch))


@pytest.mark.parametrize("cache_implementation", ["dynamic", "static"])
def test_generate(pair, case, figures, cache_implementation):
    batch = harness.inputs(pair.old, padded=True)
    old = pair.original(harness.generate, batch, cache_implementation)
    if pair.mode in WITH_KERNELS:
        forced = {"forced": old["sequences"]}
        new = harness.generate(pair.new, batch, cache_implementation, **forced)
        exact = pair.exact(harness.generate, batch, cache_implementation, **forced)
        found = kernel_checks.compare_forced(old, new, exact)
    else:
        new = harness.generate(pair.new, batch, cache_implementation)
        found = harness.compare_generation(old, new)
    figures(label(f"generate {cache_implementation}", case), found)


def test_training_step(pair, case, figures):
    """Loss, and the gradient of every parameter: to the bit, as no kernel runs."""
    batch = harness.inputs(pair.old)
    old = pair.original(harness.train, batch)
    with ops.record() as paths:
        new = harness.train(pair.new, batch)
    assert {path for _, _, path in paths} <= {"reference", "helper"} and paths
    assert any(g is not None and bool(g.any()) for g in old["grad"].values())
    figures(label("training step", case), harness.compare(old, new))


def test_op_results(pair, case):
    """Each op result has the value, dtype and strides of what the original computes there.

    With kernels: of what the references compute from the same arguments.
    """
    batch = harness.inputs(pair.old)
    if pair.mode in WITH_KERNELS:
        with kernel_checks.beside_references() as seen:
            harness.decode(pair.new, batch)
        seen.check()
        assert seen.calls
        return
    with torch.no_grad(), harness.Trace() as trace:
        pair.old(**batch, use_cache=True)
    pair.recorder.calls.clear()
    harness.prefill(pair.new, batch)
    assert harness.compare_op_results(pair.recorder.calls, trace) > 0


@pytest.mark.parametrize("family,variant", VARIANTS, ids=[f"{f}-{v}" for f, v in VARIANTS])
@pytest.mark.parametrize("mode", [modes.parameter(modes.REFERENCES), modes.parameter(modes.OFF)])
def test_ops_ran(modules, originals, mode, family, variant):
    """One forward pass calls each op as often as the table says, and none goes around its op.

    "helper" as a path means that the op called the file's own function in place of its formula.
    """
    pair = Pair(modules, originals, mode, family, variant, "eager", torch.float32)
    with modes.running(mode), ops.record() as paths:
        harness.prefill(pair.new, harness.inputs(pair.new))
    observed = families.calls_by_class(pair.recorder.calls)
    assert observed == families.expected_table()[family]["calls"][variant]
    helped = {op for op, _, path in paths if path == "helper"}
    assert {path for _, _, path in paths} == {"reference"} | ({"helper"} if helped else set())
    assert bool(helped) == (mode == modes.OFF)
    assert sum(paths.values()) == sum(observed.values())


@pytest.mark.parametrize("family,variant", VARIANTS, ids=[f"{f}-{v}" for f, v in VARIANTS])
@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("mode", [modes.parameter(mode) for mode in WITH_KERNELS])
def test_kernels_ran(modules, originals, mode, dtype, family, variant):
    """Each op is computed by the path that the table says; one back at its reference is a loss."""
    pair = Pair(modules, originals, mode, family, variant, "eager", dtype)
    expected = families.expected_table()[family]["paths"][variant]
    one_token = {"input_ids": torch.full((harness.BATCH, 1), 7)}
    for batch in (harness.inputs(pair.new), one_token):
        with modes.running(mode), ops.record() as paths:
            harness.prefill(pair.new, batch)
        assert kernel_checks.paths_by_reference(paths, mode) == expected


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
@pytest.mark.parametrize(
    "mode", [modes.parameter(modes.REFERENCES), modes.parameter(modes.KERNELS)]
)
def test_replaced_helper_is_called(modules, originals, mode, family, monkeypatch):
    """Whoever puts another rope function into the module gets it called, fused or not."""
    variant = next(iter(FAMILIES[family].variants))
    pair = Pair(modules, originals, mode, family, variant, "eager", torch.float32)
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
    with modes.running(mode):
        harness.compare(after, harness.prefill(pair.new, batch))


def test_table_covers_every_family():
    table = families.expected_table()
    assert sorted(table) == sorted(FAMILIES)
    for name, family in FAMILIES.items():
        assert table[name]["fused"], name
        for part in ("calls", "paths"):
            assert sorted(table[name][part]) == sorted(family.variants), name
            for variant, calls in table[name][part].items():
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
def test_state_and_identity(plain_pair, family):
    """Same keys, shapes, class names, signatures and module tree: nothing of the state moves."""
    import inspect

    pair = plain_pair(family)
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
