"""Every text architecture of transformers, tiny, with and without the import hook, compared.

    python tests/numeric/architectures.py [NAME...] [--jobs N] [--json OUT] [--modes M,..]

A NAME is the model type of a causal architecture, or KIND:MODEL_TYPE of another kind (KINDS).

Each architecture has two processes, forked from one that has imported torch and transformers but no
modeling file, so that the hook sees every import: a plain one, and one for the modes of the ops
(modes.py). Mode `plain` has no hook: what it finds is no fault of the rewriter. Sizes are made by rules over the default configuration
(RULES), with single exceptions as data (SETTINGS); what cannot run is in EXCLUDED.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (str(HERE.parents[1] / "python"), str(HERE.parent), str(HERE)):
    if folder not in sys.path:
        sys.path.insert(0, folder)
os.environ.setdefault("HF_HUB_OFFLINE", "1")

VOCAB, BATCH, SEQ, NEW_TOKENS, LAYERS = 120, 2, 11, 3, 2
EPS = 0.02  # large, so that another one moves the results well over the bound
SECONDS = 120  # of CPU time for one run
PLAIN = "plain"

# The first rule whose pattern is found in a field's name gives its size: a number, or the largest
# number allowed.
RULES = [
    (
        r"^(num_hidden_layers|n_layers?|num_layers|(num_)?(en|de)coder_layers|depth)$",
        LAYERS,
    ),
    (r"vocab_size", VOCAB),
    (r"(num_key_value_heads|num_kv_heads|n_head_kv|kv_n_heads)$", ("at most", 2)),
    (r"^((swa_)?num_attention_heads|n_heads?|num_heads|(en|de)coder_attention_heads)$", 4),
    (
        r"^(qk_nope_head_dim|((swa_)?v|global|swa|linear|linear_(key|value)|attention)_head_dim"
        r"|head_dim|kv_channels|d_head|mamba_head_dim|mamba_d_head"
        r"|index_head_dim|qk_rope_head_dim)$",
        16,
    ),
    (r"^qk_head_dim$", 32),
    (r"_lora_rank$", 24),
    (r"(linear_num_key_heads|index_n_heads)$", 2),
    (r"(linear_num_value_heads|linear_num_heads)$", 4),
    (r"(intermediate_size|ffn_dim|n_inner|ffn_hidden_size|intermediate_size_mlp)$", 96),
    (
        r"^((attention_|out_|backbone_)?hidden_size|hidden_size_global|n_embd|d_model|dim"
        r"|hidden_dim|embedding_size|embed_dim|lru_width|word_embed_proj_dim|projection_dim)$",
        64,
    ),
    (
        r"^(num_experts_per_tok(en)?|moe_(topk|k|top_k)|top_k_experts|n(um)?_shared_experts)$",
        ("at most", 2),
    ),
    (
        r"(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)$",
        ("at most", 8),
    ),
    (r"^(n_group|num_expert_group)$", ("at most", 2)),
    (r"^topk_group$", 1),
    (r"^first_k_dense_replace$|^num_dense_layers$", ("at most", 1)),
    (
        r"^(attention_chunk_size|((sliding|attention)_)?window_size|sliding_window)$",
        ("at most", 6),
    ),
    (r"^index_topk$", 8),
    (r"(mamba_n_heads|n_mamba_heads|mamba_num_heads)$", 8),
    (r"(mamba_d_state|state_size)$", 16),
    (r"(time_step_rank|mamba_dt_rank|rotary_dim)$", 8),
    (r"(chunk_size|mamba_chunk_size)$", ("at most", 8)),
    (r"(mamba_n_groups|n_groups|mamba_ngroups)$", 1),
    (
        r"(max_position_embeddings|n_positions|n_ctx|max_seq_len|seq_length|model_max_length)$",
        ("at most", 96),
    ),
    (r"^image_size$", 32),
    (r"^patch_size$", 8),
]

_DOTS3 = {
    2: {
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "q_lora_rank": 24,
        "kv_lora_rank": 24,
        "head_dim": 32,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "qk_rope_head_dim": 16,
    }
}
# model type -> field (dotted for sub-configurations) -> value set after the rules; None drops the
# field to its default.
SETTINGS: dict[str, dict] = {
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 300, "num_hidden_layers": 2},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 4.0, "rope_theta": 1e4},
        "ffn_config.moe_top_k": 2,
    },
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {
        "layer_types": None,
        "num_hidden_layers": 3,
        "n_input_layers": 1,
        "n_recurrent_layers": 1,
        "n_output_layers": 1,
    },
    "dots3_note": {
        "text_config.per_layer_config": _DOTS3,
        "vision_config.adapter_in_dim": 64,
        "vision_config.adapter_out_dim": 64,
        "audio_config.adapter_input_size": 64,
        "audio_config.adapter_out_dim": 64,
    },
    "dots3_note_text": {"per_layer_config": _DOTS3},
    "dots1": {"n_routed_experts": 6, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "esm": {"vocab_size": VOCAB, "pad_token_id": 1, "mask_token_id": 4},
    "esmc": {"num_key_value_heads": 4},
    "falcon_h1": {"mamba_d_ssm": 128},
    "gemma3n_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0],
        "intermediate_size": 96,
    },
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "hrm_text": {"num_layers_per_stack": 1, "num_hidden_layers": None},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8},
    "ministral": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "perceiver": {"num_latents": 8, "d_latents": 64, "num_self_attends_per_block": 2},
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
    },
    "qwen4_exp": {
        f"text_config.indexer_{k}": v
        for k, v in {
            "n_heads": 4,
            "kv_heads": 1,
            "head_dim": 16,
            "budget": 4,
            "compress_ratio": 2,
        }.items()
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_embds": False},
    "vibevoice_asr": {"acoustic_tokenizer_chunk_size": 3200},
    "xlstm": {"embedding_dim": None, "num_blocks": None, "qk_dim_factor": 1.0},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "attention_head_dim": 32,
        "attention_hidden_size": 128,
    },
    "zamba2": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "hybrid_layer_ids": [1, 3],
        "mamba_headdim": 16,
        "attention_head_dim": 32,
        "attention_hidden_size": 128,
    },
}
# model type -> why it is not run at all.
EXCLUDED: dict[str, str] = {
    "gemma4_assistant": "a draft model that reads its target's keys and values; gemma4_text is run",
    "gemma4_unified_assistant": "a draft model, as gemma4_assistant; gemma4_unified_text is run",
    "gemma3n": "its vision tower needs timm and pillow; gemma3n_text is run",
    "seq2seq:encoder-decoder": "joins two models of other types, which are run by themselves",
    "seq2seq:nemo_speechlm": "its parts shrink only together; its text model is a Llama",
    "seq2seq:voxtral_realtime": "streams audio step by step; its text model is a Mistral",
}
# model type -> bound of the float32 difference with kernels where it is not harness.MAX_REL, and why.
UNSTABLE: dict[str, tuple[float, str]] = {
    "dory": (
        9e-4,
        "its normalized layers amplify with random scales: half a unit in the last place of the"
        " embeddings moves the original's own logits by 8e-4",
    ),
}
# model type -> why it is run forward only.
FORWARD_ONLY: dict[str, str] = {
    "musicgen": "the rows are audio codebooks, which generate makes from a text encoder",
    "musicgen_melody": "the rows are audio codebooks, which generate makes from a text encoder",
}
# model type -> the sub-configuration that its causal class takes.
DECODER_CONFIG = {"musicgen": "musicgen_decoder", "musicgen_melody": "musicgen_melody_decoder"}


# ------------------------------------------------------------------ configurations
# kind -> its auto class, and the table of that.
KINDS = {
    "causal": ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    "mlm": ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    "seq2seq": ("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
}


def types_of(kind: str) -> dict[str, str]:
    """name -> class name, as the auto class of `kind` has them."""
    from transformers.models.auto import modeling_auto

    table = getattr(modeling_auto, KINDS[kind][1])
    return {t if kind == "causal" else f"{kind}:{t}": name for t, name in table.items()}


def causal_types() -> dict[str, str]:
    return types_of("causal")


def all_types() -> dict[str, str]:
    return {name: cls for kind in KINDS for name, cls in types_of(kind).items()}


def size_of(name: str, value):
    if value is None:
        return None
    for pattern, size in RULES:
        if re.search(pattern, name):
            return min(value, size[1]) if isinstance(size, tuple) else size
    return value


def latent_heads(values: dict) -> dict:
    """Latent attention has no groups of heads."""
    if "kv_lora_rank" in values and values.get("num_key_value_heads") is not None:
        values["num_key_value_heads"] = values.get("num_attention_heads", 4)
    return values


def pick_layers(values: dict) -> None:
    """Cuts per-layer lists to one entry per kind of layer, and the layer count with them."""
    count_names = [n for n in values if re.search(RULES[0][0], n) and isinstance(values[n], int)]
    if not count_names:
        return
    count = values[count_names[0]]
    per_layer = {
        n: v
        for n, v in values.items()
        if isinstance(v, (list, tuple)) and len(v) == count and count > 2
    }
    kinds = (
        list(zip(*(map(str, v) for n, v in per_layer.items() if "type" in n), strict=True))
        or [()] * count
    )
    firsts = {kind: i for i, kind in reversed(list(enumerate(kinds)))}
    chosen = sorted(firsts.values())[:4]
    chosen += [i for i in range(count) if i not in chosen][: max(0, LAYERS - len(chosen))]
    chosen.sort()
    for name, v in per_layer.items():
        values[name] = [v[i] for i in chosen]
    for name in count_names:
        values[name] = len(chosen)
    special = values.get("per_layer_config")
    if isinstance(special, dict):
        values["per_layer_config"] = {
            chosen.index(int(i)): latent_heads({n: size_of(n, x) for n, x in v.items()})
            for i, v in special.items()
            if int(i) in chosen
        }


def shrink(values: dict) -> dict:
    pick_layers(values)
    used = 0
    for name, v in sorted(values.items()):
        if name == "per_layer_config":
            continue
        if isinstance(v, dict) and ("model_type" in v or name.endswith("_config")):
            values[name] = shrink(v)
        elif re.search(RULES[0][0], name):
            continue
        elif re.search(r"token_(id|index)s?$", name):
            many = v if isinstance(v, list) else [v]
            small = []
            for x in many[:2]:
                used += 1
                small.append(x if not isinstance(x, int) or 0 <= x < VOCAB else VOCAB - used)
            values[name] = small if isinstance(v, list) else small[0]
        elif isinstance(v, int) and not isinstance(v, bool):
            values[name] = size_of(name, v)
        elif isinstance(v, float) and re.search(r"norm.*eps|epsilon|^eps$", name):
            values[name] = EPS
    latent_heads(values)
    rope = values.get("rope_parameters")
    for part in [rope, *rope.values()] if isinstance(rope, dict) else []:
        if isinstance(part, dict) and "mrope_section" in part:
            part["mrope_section"] = [2, 3, 3]
    return values


def tiny_config(model_type: str):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[model_type]
    values = shrink(config_class().to_dict())
    for name in ("transformers_version", "architectures", "dtype", "model_type", "_name_or_path"):
        values.pop(name, None)
    for name, value in SETTINGS.get(model_type, {}).items():
        *folders, leaf = name.split(".")
        target = values
        for f in folders:
            target = target[f]
        if value is None:
            target.pop(leaf, None)
        else:
            target[leaf] = value
    return config_class(**values)


# ------------------------------------------------------------------ one run, in a process of its
# own
def token_ids(config, rows: int):
    import torch

    special = {0, 1, 2, 3}
    text = config.get_text_config()
    for c in (config, text):
        for name, value in vars(c).items():
            if "token" in name:
                special.update(
                    x for x in (value if isinstance(value, list) else [value]) if isinstance(x, int)
                )
    allowed = torch.tensor(
        [i for i in range(4, min(VOCAB, getattr(text, "vocab_size", VOCAB))) if i not in special]
    )
    picked = torch.randint(0, len(allowed), (rows, SEQ), generator=torch.Generator().manual_seed(7))
    return allowed[picked]


def build(name: str):
    """The model with random weights, the same in every process."""
    import harness
    import torch
    import transformers

    torch.manual_seed(0)
    *kind, model_type = name.split(":")
    kind = kind[0] if kind else "causal"
    config = tiny_config(DECODER_CONFIG.get(model_type, model_type))
    if kind == "causal" and getattr(config, "is_decoder", None) is False:
        config.is_decoder = True
    if model_type in DECODER_CONFIG:
        model = getattr(transformers, causal_types()[model_type])._from_config(config)
    else:
        model = getattr(transformers, KINDS[kind][0]).from_config(config)
    model = model.float().eval()
    harness.randomize(model)
    return model, kind


def run_modes(name: str, modes: tuple[str, ...]) -> Iterator[tuple[str, dict]]:
    """(mode, result) of each; a new model each time, as some keep state from call to call."""
    import warnings

    from transformers.utils import logging

    logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    if modes != (PLAIN,):
        import tfrewrite

        tfrewrite.enable()
    for mode in modes:
        yield mode, run_one(name, mode, *build(name))


def run_one(name: str, mode: str, model, kind: str) -> dict:
    """Logits of one forward pass and of a few generated tokens, and the op calls made."""
    import contextlib

    import modes
    import torch

    hook = mode != PLAIN
    ids = token_ids(model.config, rows=BATCH * getattr(model.config, "num_codebooks", 1))
    modules = {
        type(m).__module__
        for m in model.modules()
        if type(m).__module__.startswith("transformers.models.")
    }
    result = {"rewritten": sorted(m for m in modules if uses_ops(sys.modules[m]))}
    result |= {"calls": {}, "paths": {}}
    with modes.running(mode) if hook else contextlib.nullcontext(), counted_ops(hook) as counts:
        with torch.no_grad():
            more = {"decoder_input_ids": ids} if kind == "seq2seq" else {}
            out = model(input_ids=ids, output_hidden_states=True, **more)
        logits = out.logits
        result["outputs"] = {"logits": logits, "hidden_states": tensors_of(out, "hidden_states")}
        if kind != "mlm" and name not in FORWARD_ONLY:
            model.generation_config.eos_token_id = None
            model.generation_config.decoder_start_token_id = 0
            out = model.generate(
                input_ids=ids,
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                num_beams=1,
                pad_token_id=0,
                return_dict_in_generate=True,
                output_logits=True,
            )
            result["generated"] = {"sequences": out.sequences, "logits": list(out.logits)}
    for (op, _, path), n in counts.items():
        result["calls"][op] = result["calls"].get(op, 0) + n
        result["paths"][path] = result["paths"].get(path, 0) + n
    if not bool(torch.isfinite(logits).all()) or float(logits.std()) == 0.0:
        raise FloatingPointError("the outputs are not finite, or all the same")
    return result


def tensors_of(out, name: str) -> list:
    """The tensors of an output that not every architecture has."""
    import torch

    return [t for t in getattr(out, name, None) or () if isinstance(t, torch.Tensor)]


def uses_ops(module) -> bool:
    ops = sys.modules.get("tfrewrite.ops")
    return ops is not None and any(v is ops for v in vars(module).values())


def counted_ops(hook: bool):
    import contextlib

    if not hook:
        return contextlib.nullcontext({})
    from tfrewrite import ops

    return ops.record()


def child(name: str, modes: tuple[str, ...], path: str) -> None:
    """Never returns: writes its results, or the error of those that there are not, to `path`."""
    import resource

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    import torch

    results = {}
    try:
        for mode, result in run_modes(name, modes):
            results[mode] = result
    except BaseException as e:  # whatever it is belongs into the result
        import traceback

        frames = traceback.extract_tb(e.__traceback__)[-2:]
        where = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames))
        error = f"{type(e).__name__}: {' '.join(str(e).split())[:240]} ({where})"
        results |= {mode: {"error": error} for mode in modes if mode not in results}
    torch.save(results, path)
    os._exit(0)


# ------------------------------------------------------------------ all runs
def bound_of(model_type: str, mode: str) -> float:
    import harness
    import modes

    special = mode == modes.KERNELS and model_type in UNSTABLE
    return UNSTABLE[model_type][0] if special else harness.MAX_REL


def compare_results(old: dict, new: dict, max_rel: float = 1e-5) -> dict:
    import harness

    line = {name: new.get(name, {}) for name in ("calls", "paths", "rewritten")}
    line |= {"error": None, "max_rel": 0.0}
    for side, result in (("plainly", old), ("with the hook", new)):
        if "error" in result:
            line["error"] = f"{side}: {result['error']}"
            line["stage"] = side
            return line
    try:
        line["max_rel"] = harness.compare(old["outputs"], new["outputs"], max_rel=max_rel).max_rel
        if "generated" in old:
            line["max_rel"] = max(
                line["max_rel"],
                harness.compare_generation(old["generated"], new["generated"], max_rel).max_rel,
            )
            if strides_of(old["generated"]) != strides_of(new["generated"]):
                raise harness.Mismatch("strides of the generated logits differ")
        line["generated"] = "generated" in old
    except harness.Mismatch as e:
        line["error"], line["stage"] = str(e), "comparison"
    return line


def strides_of(generated: dict) -> list:
    return [(t.shape, t.stride()) for t in (generated["sequences"], *generated["logits"])]


def preload() -> None:
    """What every run needs and the hook does not look at, once, before the forks."""
    import harness  # noqa: F401
    import torch
    import transformers.generation.utils
    import transformers.masking_utils
    import transformers.modeling_layers
    import transformers.models.auto.modeling_auto
    import transformers.processing_utils  # noqa: F401
    from tfrewrite import ops  # noqa: F401

    torch.set_num_threads(1)
    seen = [n for n in sys.modules if re.match(r"transformers\.models\.\w+\.modeling_", n)]
    assert seen == ["transformers.models.auto.modeling_auto"], seen


def run_all(
    types: list[str],
    modes: tuple[str, ...] = ("references",),
    jobs: int = 2,
    report=lambda name, mode, line: None,
) -> dict[str, dict[str, dict]]:
    """Result lines by model type and mode; `report` is called as each one is done."""
    import torch

    preload()
    lines: dict[str, dict[str, dict]] = {}
    with tempfile.TemporaryDirectory() as folder:
        plain = (PLAIN,)
        todo = [(t, m) for t in types for m in ((plain, modes) if modes != plain else (plain,))]
        live: dict[int, tuple] = {}
        done: dict[str, dict] = {}
        while todo or live:
            while todo and len(live) < jobs:
                name, together = todo.pop(0)
                path = os.path.join(folder, f"{name}-{together[0]}")
                pid = os.fork()
                if pid == 0:
                    child(name, together, path)
                live[pid] = (name, together, path, time.time())
            pid, status = wait_for_one(live)
            name, together, path, _ = live.pop(pid)
            if os.path.exists(path):
                results = torch.load(path, weights_only=False)
            else:
                results = {mode: {"error": how_it_ended(status)} for mode in together}
            done.setdefault(name, {}).update(results)
            if {PLAIN, *modes} <= done[name].keys():
                results = done.pop(name)
                lines[name] = {
                    mode: compare_results(results[PLAIN], results[mode], bound_of(name, mode))
                    for mode in modes
                }
                for mode, line in lines[name].items():
                    report(name, mode, line)
    return {t: lines[t] for t in types}


def wait_for_one(live: dict) -> tuple[int, int]:
    """The next child that ends; one that takes far too long is killed."""
    while True:
        for pid, (_, _, _, start) in live.items():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return pid, status
            if time.time() - start > 8 * SECONDS:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with status {os.WEXITSTATUS(status)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("types", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--modes", default="references,kernels", help="of the ops, or plain")
    options = parser.parse_args()
    import modes  # noqa: F401 - sets the environment of the ops

    def show(name, mode, line):
        calls = ", ".join(f"{n} {path}" for path, n in line["paths"].items())
        print(
            f"{'FAIL' if line['error'] else 'ok  '} {name} {mode}: {line['error'] or ''}",
            f"max-rel {line['max_rel']:.2g}, op calls: {calls or 'none'}",
            flush=True,
        )

    types = options.types or [t for t in all_types() if t not in EXCLUDED]
    lines = run_all(types, tuple(options.modes.split(",")), options.jobs, show)
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))
    failed = sum(x["error"] is not None for line in lines.values() for x in line.values())
    print(f"{len(lines)} architectures, {failed} comparisons failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
