"""The model families whose numbers are held equal, and the table of ops expected in each.

    python tests/numeric/families.py            show how the table differs from what is fused now
    python tests/numeric/families.py --write    write expected_ops.json anew; review its diff

The table holds per family what is fused in which class, and per variant how often one forward pass
calls each op, and, in the file rewritten for the host, how often each reference is computed by a
kernel or otherwise. A family is one modeling file. Its variants are configurations that reach other branches of that
file (biases, q/k norms, windows, packed or parallel layouts). Knows nothing of pytest.
"""

import argparse
import difflib
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected_ops.json"
PARTS = ("fused", "calls", "paths")

# eps is large and unlike any default: a rewrite that takes eps from elsewhere moves float32
# results well over the bound.
SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
RMS_EPS = {"rms_norm_eps": 0.02}
LAYER_EPS = {"layer_norm_eps": 0.02}


@dataclass(frozen=True)
class Family:
    name: str  # folder below transformers/models
    config: str
    model: str
    base: dict
    variants: dict[str, dict] = field(default_factory=dict)
    attn: tuple[str, ...] = ("eager", "sdpa")

    def config_values(self, variant: str) -> dict:
        return {**SIZES, **self.base, **self.variants[variant]}


def _rope(**values) -> dict:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **values}}


_LLAMA3_ROPE = {
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
}
_HYBRID = ["sliding_attention", "full_attention", "sliding_attention"]

FAMILIES = {
    f.name: f
    for f in [
        Family(
            "qwen2",
            "Qwen2Config",
            "Qwen2ForCausalLM",
            RMS_EPS,
            {
                "plain": {},
                "window": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
            },
        ),
        Family(
            "qwen3",
            "Qwen3Config",
            "Qwen3ForCausalLM",
            {**RMS_EPS, "head_dim": 24},
            {
                "plain": {},
                "biases": {"attention_bias": True, "head_dim": 16, "hidden_act": "gelu"},
                "window": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
            },
        ),
        Family(
            "llama",
            "LlamaConfig",
            "LlamaForCausalLM",
            RMS_EPS,
            {
                "plain": {},
                "biases": {"attention_bias": True, "mlp_bias": True, "head_dim": 24},
                "llama3_rope": {
                    **_LLAMA3_ROPE,
                    "num_key_value_heads": 4,
                    "hidden_act": "gelu_pytorch_tanh",
                },
            },
        ),
        Family(
            "mistral",
            "MistralConfig",
            "MistralForCausalLM",
            RMS_EPS,
            {
                "window": {"sliding_window": 4},
                "full": {"sliding_window": None, "head_dim": 24, "num_key_value_heads": 1},
            },
        ),
        Family(
            "gemma2",
            "Gemma2Config",
            "Gemma2ForCausalLM",
            {**RMS_EPS, "head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 24},
            {
                "plain": {"layer_types": _HYBRID},
                "biases": {"attention_bias": True, "layer_types": _HYBRID, "head_dim": 24},
                "no_softcap": {"attn_logit_softcapping": None, "final_logit_softcapping": None},
            },
            attn=("eager",),
        ),  # the original refuses sdpa
        Family(
            "gemma3",
            "Gemma3TextConfig",
            "Gemma3ForCausalLM",
            {**RMS_EPS, "head_dim": 24, "sliding_window": 4, "query_pre_attn_scalar": 24},
            {
                "plain": {"layer_types": _HYBRID},
                "biases": {"attention_bias": True, "layer_types": _HYBRID, "head_dim": 16},
            },
        ),
        Family(
            "phi3",
            "Phi3Config",
            "Phi3ForCausalLM",
            RMS_EPS,
            {
                "plain": {},
                "partial": {**_rope(partial_rotary_factor=0.5), "sliding_window": 4},
            },
        ),
        Family(
            "glm4",
            "Glm4Config",
            "Glm4ForCausalLM",
            {**RMS_EPS, "head_dim": 16},
            {
                "biases": {"attention_bias": True, **_rope(partial_rotary_factor=0.5)},
                "no_bias": {
                    "attention_bias": False,
                    **_rope(partial_rotary_factor=1.0),
                    "head_dim": 24,
                },
            },
        ),
        Family(
            "granite",
            "GraniteConfig",
            "GraniteForCausalLM",
            {
                **RMS_EPS,
                "embedding_multiplier": 3.0,
                "logits_scaling": 2.0,
                "residual_multiplier": 0.7,
                "attention_multiplier": 0.3,
            },
            {
                "plain": {},
                "biases": {"attention_bias": True, "mlp_bias": True},
            },
        ),
        Family(
            "olmo2",
            "Olmo2Config",
            "Olmo2ForCausalLM",
            RMS_EPS,
            {
                "plain": {},
                "biases": {"attention_bias": True},
            },
        ),
        Family(
            "smollm3",
            "SmolLM3Config",
            "SmolLM3ForCausalLM",
            RMS_EPS,
            {
                "plain": {"no_rope_layers": [1, 0, 1]},
                "biases": {
                    "attention_bias": True,
                    "mlp_bias": True,
                    "no_rope_layers": [1, 1, 0],
                    "use_sliding_window": True,
                    "sliding_window": 4,
                },
            },
        ),
        Family(
            "cohere2",
            "Cohere2Config",
            "Cohere2ForCausalLM",
            {**LAYER_EPS, "sliding_window": 4, "logit_scale": 0.5},
            {
                "plain": {"layer_types": _HYBRID},
                "biases": {"attention_bias": True, "layer_types": _HYBRID},
            },
        ),
        Family(
            "stablelm",
            "StableLmConfig",
            "StableLmForCausalLM",
            LAYER_EPS,
            {
                "plain": _rope(partial_rotary_factor=0.25),
                "qk_norm": {
                    "qk_layernorm": True,
                    "use_qkv_bias": True,
                    **_rope(partial_rotary_factor=0.5),
                },
                "parallel": {"use_parallel_residual": True, **_rope(partial_rotary_factor=1.0)},
            },
        ),
    ]
}

VARIANTS = [(f.name, v) for f in FAMILIES.values() for v in f.variants]


# ------------------------------------------------------------------ what is fused
def fused_by_class(fused: list[dict]) -> dict[str, list[str]]:
    """The report's `fused` entries as class (or Class.method) -> ops in source order."""
    table: dict[str, list[str]] = {}
    for entry in sorted(fused, key=lambda e: (e["line"], e["end_line"], e["op"])):
        name = entry["class"] or f"{entry['function']}()"
        if entry["class"] and entry["function"] != "forward":
            name = f"{name}.{entry['function']}"
        table.setdefault(name, []).extend([entry["op"]] * entry.get("count", 1))
    return table


def calls_by_class(calls) -> dict[str, int]:
    """How often each op was called in a forward pass, as 'Class.op' -> count."""
    counts = Counter(f"{c.owner}.{c.op}" for c in calls)
    return dict(sorted(counts.items()))


def paths_by_variant(family: Family) -> dict[str, dict[str, int]]:
    """variant -> by what one forward pass of the file rewritten for the host is computed."""
    import harness
    import kernel_checks
    import modes
    from tfrewrite import ops

    text = harness.rewrite_family(family.name, "host").text
    module = harness.load_module(family.name, text, "counted_host")
    found = {}
    for variant in family.variants:
        model = harness.build(module, family, variant)
        with modes.running(modes.KERNELS), ops.record() as paths:
            harness.prefill(model, harness.inputs(model))
        found[variant] = kernel_checks.paths_by_reference(paths)
    return found


def observed_table() -> dict:
    """The table as it is now: the report, and what one forward pass of each variant calls."""
    import harness
    import modes  # noqa: F401 - sets what the ops read, so before they are imported

    table = {}
    for family in FAMILIES.values():
        rewritten = harness.rewrite_family(family.name)
        recorder = harness.Recorder()
        module = harness.load_module(family.name, rewritten.text, "counted", recorder)
        calls = {}
        for variant in family.variants:
            model = harness.build(module, family, variant)
            recorder.calls.clear()
            harness.prefill(model, harness.inputs(model))
            calls[variant] = calls_by_class(recorder.calls)
        table[family.name] = {
            "fused": fused_by_class(rewritten.fused),
            "calls": calls,
            "paths": paths_by_variant(family),
        }
    return table


def dump(table: dict) -> str:
    """JSON with one line per class and per variant, so that its diff reads as lists of ops."""
    out = ["{"]
    for i, (family, entry) in enumerate(sorted(table.items())):
        out.append(f"  {json.dumps(family)}: {{")
        for j, part in enumerate(parts := [p for p in PARTS if p in entry]):
            out.append(f'    "{part}": {{')
            rows = [f"      {json.dumps(k)}: {json.dumps(v)}" for k, v in entry[part].items()]
            out += [r + ("," if n + 1 < len(rows) else "") for n, r in enumerate(rows)]
            out.append("    }" + ("," if j + 1 < len(parts) else ""))
        out.append("  }" + ("," if i + 1 < len(table) else ""))
    return "\n".join([*out, "}"]) + "\n"


def expected_table() -> dict:
    return json.loads(EXPECTED.read_text())


def table_diff(expected: dict, observed: dict) -> str:
    """Unified diff of the two tables; empty when they are equal."""
    return "".join(
        difflib.unified_diff(
            dump(expected).splitlines(True),
            dump(observed).splitlines(True),
            "expected_ops.json",
            "this program",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write expected_ops.json")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    observed = observed_table()
    old = expected_table() if EXPECTED.exists() else {}
    diff = table_diff(old, observed)
    if options.write:
        EXPECTED.write_text(dump(observed))
    print(diff or "expected_ops.json is up to date")
    return 1 if diff and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
