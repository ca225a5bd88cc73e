"""Each check of this folder fails when it should.

The wrong rewrites are made here, by replacing text of real modeling files.
"""

import json
import sys
import types

import families
import harness
import kernel_checks
import modes
import pytest
import torch
from families import FAMILIES

F32, BF16 = torch.float32, torch.bfloat16


def edited(family: str, *replacements: tuple[str, str]) -> str:
    text = harness.original_text(family)
    for old, new in replacements:
        assert text.count(old) >= 1, f"{family}: {old!r} is no longer in the file"
        text = text.replace(old, new)
    return text


def models(family, text, tag, attn="eager", dtype=F32, variant=None):
    module = harness.load_module(family, text, tag)
    variant = variant or next(iter(FAMILIES[family].variants))
    old = harness.build(harness.original_module(family), FAMILIES[family], variant, attn, dtype)
    new = harness.build(module, FAMILIES[family], variant, attn, dtype)
    harness.copy_weights(old, new)
    return old, new


RUNS = {
    "prefill": lambda m: harness.prefill(m, harness.inputs(m)),
    "padded": lambda m: harness.prefill(m, harness.inputs(m, padded=True)),
    "decode": lambda m: harness.decode(m, harness.inputs(m)),
    "train": lambda m: harness.train(m, harness.inputs(m)),
}
MLP = "self.act_fn(self.gate_proj(x)) * self.up_proj(x)"
NORM = "return self.weight * hidden_states.to(input_dtype)"
QUERY = "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)"
ROOT = "torch.rsqrt(variance + self.variance_epsilon)"

# name -> (family, dtype, run, replacements, part of the message)
WRONG = {
    "gate_and_up_swapped": (
        "llama",
        F32,
        "prefill",
        [(MLP, "self.act_fn(self.up_proj(x)) * self.gate_proj(x)")],
        "largest difference",
    ),
    "eps_from_elsewhere": (
        "llama",
        F32,
        "prefill",
        [("self.variance_epsilon = eps", "self.variance_epsilon = 0.019")],
        "largest difference",
    ),
    "norm_weight_left_out": (
        "llama",
        F32,
        "prefill",
        [(NORM, "return hidden_states.to(input_dtype)")],
        "largest difference",
    ),
    "norm_one_plus_left_out": (
        "gemma3",
        F32,
        "prefill",
        [("(1.0 + self.weight.float())", "self.weight.float()")],
        "largest difference",
    ),
    "query_negated": (
        "llama",
        F32,
        "prefill",
        [(QUERY, QUERY + "\n        query_states = query_states.neg()")],
        "largest difference",
    ),
    "rope_sign": (
        "llama",
        F32,
        "prefill",
        [("torch.cat((-x2, x1), dim=-1)", "torch.cat((x2, -x1), dim=-1)")],
        "largest difference",
    ),
    "rope_partial_rest_lost": (
        "stablelm",
        F32,
        "prefill",
        [
            (
                "torch.cat((query_rot, query_pass), dim=-1)",
                "torch.cat((query_rot, query_pass * 0), dim=-1)",
            )
        ],
        "largest difference",
    ),
    "packed_halves_swapped": (
        "phi3",
        F32,
        "prefill",
        [
            (
                "gate, up_states = up_states.chunk(2, dim=-1)",
                "up_states, gate = up_states.chunk(2, dim=-1)",
            )
        ],
        "largest difference",
    ),
    "k_norm_with_the_weight_of_q": (
        "qwen3",
        F32,
        "prefill",
        [("self.k_norm(self.k_proj(", "self.q_norm(self.k_proj(")],
        "largest difference",
    ),
    "bias_of_one_projection_dropped": (
        "qwen2",
        F32,
        "prefill",
        [("self.v_proj(hidden_states)", "nn.functional.linear(hidden_states, self.v_proj.weight)")],
        "largest difference",
    ),
    "mask_ignored": (
        "llama",
        F32,
        "padded",
        [("attention_mask=causal_mask,", "attention_mask=None,")],
        "largest difference",
    ),
    "norm_rounds_weight_before_cast": (
        "llama",
        BF16,
        "prefill",
        [(NORM, "return (self.weight * hidden_states).to(input_dtype)")],
        "elements differ",
    ),
    "product_not_rounded_in_between": (
        "llama",
        BF16,
        "prefill",
        [(MLP, "(self.act_fn(self.gate_proj(x).float()) * self.up_proj(x).float()).to(x.dtype)")],
        "elements differ",
    ),
    "post_norm_of_unrounded_sum": (
        "qwen3",
        BF16,
        "prefill",
        [
            (
                "hidden_states = residual + hidden_states\n\n",
                "hidden_states = (residual.float() * 1.002 + hidden_states).to(residual.dtype)\n\n",
            )
        ],
        "elements differ",
    ),
    "result_in_float32": (
        "llama",
        BF16,
        "prefill",
        [("logits=logits,\n            cache", "logits=logits.float(),\n            cache")],
        "dtype",
    ),
    "hidden_state_in_another_layout": (
        "llama",
        F32,
        "prefill",
        [
            (
                "self.norm(hidden_states)",
                "self.norm(hidden_states).transpose(0, 1).contiguous().transpose(0, 1)",
            )
        ],
        "strides",
    ),
    "residual_added_in_place": (
        "llama",
        F32,
        "prefill",
        [
            (
                "hidden_states = residual + hidden_states\n\n",
                "hidden_states = residual.add_(hidden_states)\n\n",
            )
        ],
        "hidden_states",
    ),
    "attentions_dropped": (
        "llama",
        F32,
        "prefill",
        [("return attn_output, attn_weights\n\n\n@", "return attn_output, None\n\n\n@")],
        "attentions",
    ),
    "hidden_states_not_recorded": (
        "llama",
        F32,
        "prefill",
        [('"hidden_states": LlamaDecoderLayer,', "")],
        "other outputs|hidden_states",
    ),
    "cache_fed_before_rope": (
        "llama",
        F32,
        "decode",
        [
            (QUERY, "raw = key_states\n        " + QUERY),
            ("cache.update(key_states,", "cache.update(raw,"),
        ],
        "largest difference",
    ),
    "gradient_cut": (
        "llama",
        F32,
        "train",
        [(MLP, "self.act_fn(self.gate_proj(x)) * self.up_proj(x).detach()")],
        "grad",
    ),
    "gradient_of_norm_weight_cut": (
        "llama",
        F32,
        "train",
        [(NORM, "return self.weight.detach() * hidden_states.to(input_dtype)")],
        "grad",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rewrite_is_seen(name):
    family, dtype, run, replacements, message = WRONG[name]
    old, new = models(family, edited(family, *replacements), f"wrong_{name}", dtype=dtype)
    with pytest.raises(harness.Mismatch, match=message):
        harness.compare(RUNS[run](old), RUNS[run](new))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_the_same_text_is_equal(run, dtype):
    old, new = models("llama", harness.original_text("llama"), "same", dtype=dtype)
    figures = harness.compare(RUNS[run](old), RUNS[run](new))
    assert figures.max_rel == 0 and figures.max_ulp == 0 and figures.tensors > 4


BY_ERROR = [
    name
    for name, (*_, what) in WRONG.items()
    if what in ("largest difference", "strides") and name != "eps_from_elsewhere"  # too little
]


@pytest.mark.parametrize("name", BY_ERROR)
def test_wrong_rewrite_is_seen_beside_an_exact_model(name):
    """What kernels are held to in bfloat16: no roundings, but everything larger."""
    family, _, run, replacements, message = WRONG[name]
    text = edited(family, *replacements)
    old, new = models(family, text, f"wrong_{name}", dtype=BF16)
    exact = RUNS[run](kernel_checks.exact_model(old))
    message = message.replace("largest difference", "times the original's|infinities")
    with pytest.raises(harness.Mismatch, match=message):
        harness.compare(RUNS[run](old), RUNS[run](new), exact=exact)


def test_the_same_text_is_as_near_to_an_exact_model():
    old, new = models("llama", harness.original_text("llama"), "same", dtype=BF16)
    for run in ("padded", "decode"):
        exact = RUNS[run](kernel_checks.exact_model(old))
        figures = harness.compare(RUNS[run](old), RUNS[run](new), exact=exact)
        assert set(figures.ratios) == {1.0} and figures.ulp_share == 0 and figures.tensors > 4


def test_renamed_parameter_is_seen():
    text = edited("llama", ("gate_proj", "w1"))
    with pytest.raises(harness.Mismatch, match="state_dict"):
        models("llama", text, "renamed")


def test_wrong_token_is_seen():
    old, new = models(
        "llama",
        edited("llama", (MLP, "self.act_fn(self.up_proj(x)) * self.gate_proj(x)")),
        "wrong_tokens",
    )
    batch = harness.inputs(old)
    with pytest.raises(harness.Mismatch):
        harness.compare_generation(
            harness.generate(old, batch, "dynamic"), harness.generate(new, batch, "dynamic")
        )


def test_tokens_may_part_only_at_a_tie():
    logits = torch.zeros(2, 5)
    logits[:, 3] = 1.0
    logits[0, 2] = 1.0  # a tie in row 0 alone
    ref = {"sequences": torch.tensor([[9, 3, 3], [9, 3, 3]]), "logits": [logits, logits]}
    tied = {
        "sequences": torch.tensor([[9, 2, 0], [9, 3, 3]]),
        "logits": [logits, torch.stack([logits[0] * 9, logits[1]])],
    }
    harness.compare_generation(ref, tied)
    flipped = {"sequences": torch.tensor([[9, 3, 3], [9, 2, 3]]), "logits": [logits, logits]}
    with pytest.raises(harness.Mismatch, match="without a tie"):
        harness.compare_generation(ref, flipped)


def test_forced_tokens_may_part_only_at_a_tie():
    logits = torch.zeros(2, 5)
    logits[:, 3] = 1.0
    other, near = logits.clone(), logits.clone()
    other[1, 2] = 1.1
    near[1, 3] = 1 + 1e-6
    ref = {"logits": [logits, logits]}
    kernel_checks.compare_forced(ref, {"logits": [logits, near]}, None)
    with pytest.raises(harness.Mismatch, match="step 1: largest difference"):
        kernel_checks.compare_forced(ref, {"logits": [logits, other]}, None)
    exact = {"logits": [logits + 1e-3, logits + 1e-3]}
    kernel_checks.compare_forced(ref, {"logits": [near, logits]}, exact)
    with pytest.raises(harness.Mismatch, match="step 0: error"):
        kernel_checks.compare_forced(ref, {"logits": [other, logits]}, exact)


# ------------------------------------------------------------------ single kernels
def beside(op, variant, kernel, *arguments):
    """The checks of one call of a made-up kernel."""
    seen = kernel_checks.Beside()
    kernel_checks.paired(seen, op, variant, kernel)(*arguments)
    seen.check()
    return seen


def norm_of(x, weight, eps):
    h = x.float()
    return weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def first_doubled(result):
    result[0, 0] *= 2
    return result


def scribbled(x, weight, eps):
    result = norm_of(x, weight, eps)
    x.view(torch.uint8).add_(1)
    return result


WRONG_KERNELS = {
    "eps": (lambda x, w, eps: norm_of(x, w, eps + 0.01), "largest difference|off by|differ"),
    "a little more": (
        lambda x, w, eps: (norm_of(x, w, eps).float() * (1 + 1.2e-2)).to(x.dtype),
        "largest difference|differ|off by",
    ),
    "one element": (lambda x, w, eps: first_doubled(norm_of(x, w, eps)), "largest diff|off by"),
    "strides": (lambda x, w, eps: norm_of(x, w, eps).t().contiguous().t(), "strides"),
    "dtype": (lambda x, w, eps: norm_of(x, w, eps).double(), "dtype"),
    "shape": (lambda x, w, eps: norm_of(x, w, eps)[:-1], "shape"),
    "no NaN": (lambda x, w, eps: norm_of(x, w, eps).nan_to_num(), "NaN"),
    "argument written": (scribbled, "changed an argument"),
}


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_right_kernel_passes_beside_its_reference(dtype):
    x, w = torch.randn(64, 32).to(dtype), torch.randn(32).to(dtype)
    x[3, 5] = float("nan")
    seen = beside("rms_norm", "cast_then_weight", norm_of, x, w, 1e-3)
    assert sum(seen.calls.values()) == 1
    weight, linear = torch.randn(16, 32).to(dtype), torch.nn.functional.linear
    beside("linear", "m1", linear, torch.randn(4, 32).to(dtype), weight, None)


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_wrong_kernel_is_seen_beside_its_reference(name, dtype):
    x, w = torch.randn(64, 32).to(dtype), torch.randn(32).to(dtype)
    x[3, 5] = float("nan")
    kernel, message = WRONG_KERNELS[name]
    with pytest.raises(harness.Mismatch, match=message):
        beside("rms_norm", "cast_then_weight", kernel, x, w, 1e-3)


def test_share_of_differing_elements_is_seen_beside_a_reference():
    def moved(x, w, eps):
        result = norm_of(x, w, eps)
        result.view(torch.int16)[0, :10] += 1  # 10 of 2048
        return result

    x, w = torch.randn(64, 32).to(BF16), torch.randn(32).to(BF16)
    with pytest.raises(harness.Mismatch, match="10 of 2048"):
        beside("rms_norm", "cast_then_weight", moved, x, w, 1e-3)


def test_product_that_rounds_twice_is_seen_beside_its_reference():
    def split(x, weight, bias):
        half = x.shape[-1] // 2
        return x[:, :half] @ weight[:, :half].t() + x[:, half:] @ weight[:, half:].t()

    x, weight = torch.randn(16, 64).to(BF16), torch.randn(32, 64).to(BF16)
    with pytest.raises(harness.Mismatch, match="times torch's"):
        beside("linear", "m1", split, x, weight, None)


def test_path_that_kernels_take(monkeypatch):
    monkeypatch.setenv("TFR_JIT", "sync")
    paths = ("torch", "jit", "generic", "reference")
    counts = {(op, "x", path): 1 for op in ("rope", "linear") for path in paths}
    table = {f"{op}.x {path}": 1 for op, _, path in counts}

    def but(*taken):
        return {f"{k.split()[0]} kernel" if k in taken else k: 1 for k in table}

    assert kernel_checks.paths_by_reference(counts) == but("rope.x jit", "linear.x jit")
    by_torch = kernel_checks.paths_by_reference(counts, modes.TORCH)
    assert by_torch == but("rope.x jit", "linear.x torch")
    monkeypatch.setenv("TFR_JIT", "off")
    assert kernel_checks.paths_by_reference(counts) == but("rope.x generic", "linear.x generic")


# ------------------------------------------------------------------ comparison of values
def test_values_that_must_differ():
    x = torch.linspace(-3, 3, 4096)
    y = x.clone()
    y[7] *= 1 + 1e-4
    nan, inf = x.clone(), x.clone()
    nan[1], inf[2] = float("nan"), float("inf")
    for other in (y, nan, inf, x.double(), x[:-1], x.view(64, 64)):
        with pytest.raises(harness.Mismatch):
            harness.compare({"x": x}, {"x": other})
    with pytest.raises(harness.Mismatch, match="strides"):
        harness.compare({"x": x.view(64, 64)}, {"x": x.view(64, 64).t().contiguous().t()})
    with pytest.raises(harness.Mismatch, match="became None"):
        harness.compare({"x": x}, {"x": None})
    with pytest.raises(harness.Mismatch, match="nothing"):
        harness.compare({}, {})
    harness.compare({"x": nan}, {"x": nan.clone()})
    harness.compare({"x": inf}, {"x": inf.clone()})


def test_bfloat16_bound_is_one_unit_in_a_thousandth_of_the_elements():
    x = torch.linspace(-3, 3, 4096).to(BF16)
    bits = x.view(torch.int16)

    def moved(count, by):
        other = bits.clone()
        other[:count] += by
        return {"x": other.view(BF16)}

    assert harness.compare({"x": x}, moved(4, 1)).max_ulp == 1
    for count, by in ((5, 1), (1, 2), (4096, 1)):
        with pytest.raises(harness.Mismatch, match="elements differ"):
            harness.compare({"x": x}, moved(count, by))
    zeros = torch.zeros(2, dtype=BF16)
    assert harness.compare({"x": zeros}, {"x": -zeros}).max_ulp == 0


# ------------------------------------------------------------------ what was fused
OPS_IMPORT = ("from torch import nn\n", "from torch import nn\nfrom tfrewrite import ops as tfr\n")
NORM_CALL = (
    "        hidden_states = hidden_states.to(torch.float32)\n"
    "        variance = hidden_states.pow(2).mean(-1, keepdim=True)\n"
    f"        hidden_states = hidden_states * {ROOT}\n        {NORM}\n",
    "        return tfr.rms_norm(\n"
    '            hidden_states, self.weight, self.variance_epsilon, order="cast_weight"\n'
    "        )\n",
)


@pytest.fixture
def fake_ops(monkeypatch):
    """A tfrewrite package with one op: the harness is tested without the real one."""

    def rms_norm(x, weight, eps, *, order):
        h = x.to(torch.float32)
        return weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)

    package = types.ModuleType("tfrewrite")
    package.ops = types.SimpleNamespace(rms_norm=rms_norm)
    monkeypatch.setitem(sys.modules, "tfrewrite", package)
    return package.ops


def recorded(tag, text):
    recorder = harness.Recorder(keep=True)
    module = harness.load_module("llama", text, tag, recorder)
    old = harness.build(harness.original_module("llama"), FAMILIES["llama"], "plain")
    new = harness.build(module, FAMILIES["llama"], "plain")
    harness.copy_weights(old, new)
    batch = harness.inputs(old)
    with torch.no_grad(), harness.Trace() as trace:
        old(**batch, use_cache=True)
    recorder.calls.clear()
    harness.prefill(new, batch)
    return recorder.calls, trace


def test_calls_are_counted_with_their_class(fake_ops):
    calls, trace = recorded("counted", edited("llama", OPS_IMPORT, NORM_CALL))
    assert families.calls_by_class(calls) == {"LlamaRMSNorm.rms_norm": 7}
    assert calls[0].literals == {"order": "cast_weight"}
    assert harness.compare_op_results(calls, trace) == 7


def test_op_result_in_another_layout_is_seen(fake_ops):
    inner = fake_ops.rms_norm
    fake_ops.rms_norm = lambda x, w, eps, order: (
        inner(x, w, eps, order=order).transpose(0, 1).contiguous().transpose(0, 1)
    )
    calls, trace = recorded("layout", edited("llama", OPS_IMPORT, NORM_CALL))
    with pytest.raises(harness.Mismatch, match="strides"):
        harness.compare_op_results(calls, trace)


def test_op_result_that_the_original_never_has_is_seen(fake_ops):
    inner = fake_ops.rms_norm
    fake_ops.rms_norm = lambda x, w, eps, order: inner(x, w, eps + 0.01, order=order)
    calls, trace = recorded("value", edited("llama", OPS_IMPORT, NORM_CALL))
    with pytest.raises(harness.Mismatch, match="no value of the original"):
        harness.compare_op_results(calls, trace)


def test_op_calls_of_a_text():
    text = """
from tfrewrite import ops as fused
class A:
    def forward(self, x):
        def inner(y):
            return fused.relu(y)
        return fused.linears(fused.norm(x, 1, order="a"), self.a)
    def other(self, x): return fused.norm(x)
def helper(x): return fused.rope(x)
tfr.not_ours(1)
"""
    found = [(op, owner) for _, op, owner in harness.op_calls(text)]
    assert found == [
        ("relu", "A"),
        ("linears", "A"),
        ("norm", "A"),
        ("norm", "A.other"),
        ("rope", "helper()"),
    ]
    assert harness.op_calls("tfr.x(1)") == []
    compile(harness.instrument(text), "text", "exec")
    namespace = {"fused": types.SimpleNamespace(f=lambda *a: sum(a))}
    seen = harness.Recorder()
    namespace["_tfr_recorded"] = lambda op, owner, literals, result: (
        seen.calls.append((op, result)) or result
    )
    body = harness.instrument(
        "from tfrewrite import ops as fused\nx = fused.f(1, fused.f(2), 3) * fused.f(5)\n"
    ).split("\n", 1)[1]
    exec(body, namespace)
    assert namespace["x"] == 30 and [r for _, r in seen.calls] == [2, 6, 5]


def entry(op, cls, line, count=1, function="forward"):
    return {
        "op": op,
        "class": cls,
        "function": function,
        "line": line,
        "end_line": line,
        "count": count,
    }


def test_table_is_compared_exactly():
    fused = [
        entry("b", "A", 9),
        entry("a", "A", 3),
        entry("c", "B", 20, count=2),
        entry("d", "", 30, function="helper"),
        entry("e", "A", 40, function="step"),
    ]
    table = families.fused_by_class(fused)
    assert table == {"A": ["a", "b"], "B": ["c", "c"], "helper()": ["d"], "A.step": ["e"]}
    base = {"llama": {"fused": table, "calls": {"plain": {"A.a": 1}}}}
    assert json.loads(families.dump(base)) == base
    assert families.table_diff(base, base) == ""
    for lost_or_gained in (
        fused[1:],
        [*fused, entry("a", "A", 4)],
        [fused[1], fused[0], *fused[3:]],
    ):
        other = {
            "llama": {
                "fused": families.fused_by_class(lost_or_gained),
                "calls": {"plain": {"A.a": 1}},
            }
        }
        assert families.table_diff(base, other)
    rerouted = {"llama": base["llama"] | {"paths": {"plain": {"a.x reference": 1}}}}
    assert families.table_diff(base, rerouted)
    never_called = {"llama": {"fused": table, "calls": {"plain": {}}}}
    assert families.table_diff(base, never_called)


# ------------------------------------------------------------------ error against float64
def test_lost_precision_is_seen_by_the_oracle():
    """An error below the float32 bound still shows against float64."""
    exact, sloppy = [], []
    for seed in range(20):
        x = torch.randn(64, 256, generator=torch.Generator().manual_seed(seed))
        oracle = x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-5)
        good = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        bad = good * (1 + 2e-7)
        harness.compare({"x": good}, {"x": bad})  # max-rel alone does not see it
        exact.append(
            harness.error_ratio(harness.rms(good - oracle), harness.rms(good.clone() - oracle))
        )
        sloppy.append(harness.error_ratio(harness.rms(good - oracle), harness.rms(bad - oracle)))
    assert harness.geometric_mean(exact) == 1.0
    assert harness.geometric_mean(sloppy) > 1.05


def test_oracle_text_has_no_float32_left():
    text = harness.float64_text(
        "a.to(torch.float32); b.float(); torch.float; torch.float16; c.to(torch.float)"
    )
    assert (
        text == "a.to(torch.float64); b.double(); torch.float64; torch.float16; c.to(torch.float64)"
    )


def test_graph_break_is_seen():
    text = edited("llama", (MLP, MLP + " if print('') is None else x"))
    _, new = models("llama", text, "graph_break")
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported), torch.no_grad():
        torch.compile(new, backend="eager", fullgraph=True)(**harness.inputs(new), use_cache=False)
