"""Small configurations and inputs, so that any modeling class can be built with random weights and
run in a moment.

Only rules by the names that configurations use; no model is named here.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch

BATCH, SEQUENCE, VOCABULARY = 2, 11, 128
_WIDTH, _HEADS, _HEAD_DIM, _INNER, _LAYERS, _IMAGE = 64, 4, 16, 96, 2, 32

_SIZES: dict[str, int] = {
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "embed_dim", "dim", "embedding_size"), _WIDTH
    ),
    **dict.fromkeys(
        ("projection_dim", "word_embed_proj_dim", "out_hidden_size", "hidden_dim"), _WIDTH
    ),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size"), _INNER),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "moe_intermediate_size"), _INNER),
    "shared_expert_intermediate_size": _INNER,
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads"), _HEADS
    ),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), _HEADS),
    **dict.fromkeys(
        ("head_dim", "global_head_dim", "d_kv", "qk_nope_head_dim", "v_head_dim"), _HEAD_DIM
    ),
    **dict.fromkeys(
        ("linear_key_head_dim", "linear_value_head_dim", "qk_rope_head_dim"), _HEAD_DIM
    ),
    **dict.fromkeys(("vocab_size", "text_vocab_size", "decoder_vocab_size"), VOCABULARY),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 32),
    "rotary_dim": _HEAD_DIM // 2,
    "qk_head_dim": 2 * _HEAD_DIM,
    "image_size": _IMAGE,
    "patch_size": 8,
    "num_mel_bins": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
_AT_MOST: dict[str, int] = {
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_head_kv"), 2),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"), 128
    ),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 8),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "top_k_experts"), 2),
    **dict.fromkeys(("n_group", "num_dense_layers", "first_k_dense_replace"), 1),
    "topk_group": 1,
    "sliding_window": 8,
    "max_source_positions": 32,
}
_DEPTHS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "depth",
)
_OF_STAGES = ("out_features", "out_indices", "stage_names", "_out_features", "_out_indices")
_DROPPED = (
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "quantization_config",
    "_name_or_path",
)


def tiny_config(config_class: type) -> Any:
    """An instance of a configuration class with everything small."""
    values = copy.deepcopy(config_class().to_dict())
    _shrink(values)
    return _make(config_class, values)


def config_from(config_class: type, values: dict[str, Any], every_layer: bool) -> Any:
    """The configuration of a config.json, with one layer of each kind unless `every_layer`."""
    values = copy.deepcopy(values)
    if not every_layer:
        _cut_layers(values)
    return _make(config_class, values)


def _make(config_class: type, values: dict[str, Any]) -> Any:
    kept = {k: v for k, v in values.items() if k not in (*_DROPPED, "model_type")}
    return config_class(**kept)


def _shrink(values: dict[str, Any]) -> None:
    _cut_layers(values)
    for key, value in values.items():
        if isinstance(value, dict):
            if "model_type" in value or key.endswith("_config") or key.startswith("rope_"):
                _shrink(value)
        elif key == "mrope_section" and isinstance(value, list) and len(value) == 3:
            values[key] = [2, 3, 3]  # half a head
        elif key == "head_dim" and value is None:
            values[key] = _HEAD_DIM
        elif isinstance(value, bool) or not isinstance(value, int):
            continue
        elif key == "num_key_value_heads" and "kv_lora_rank" in values:
            values[key] = _HEADS  # latent attention has as many of both
        elif key in _SIZES:
            values[key] = _SIZES[key]
        elif key in _AT_MOST:
            values[key] = min(value, _AT_MOST[key])
        elif key.endswith("_token_id") and value >= VOCABULARY:
            values[key] = VOCABULARY - 1


def _cut_layers(values: dict[str, Any]) -> None:
    """Fewer layers: the first of each kind that the lists of layer kinds name, at least two."""
    depths = [k for k in _DEPTHS if isinstance(values.get(k), int) and values[k] > _LAYERS]
    if not depths:
        return
    old = values[depths[0]]
    lists = {k: v for k, v in values.items() if isinstance(v, (list, tuple)) and len(v) == old}
    kinds = (
        list(zip(*(map(str, v) for k, v in lists.items() if "type" in k), strict=True))
        or [()] * old
    )
    picked = [i for i, kind in enumerate(kinds) if kind not in kinds[:i]][:4]
    picked = sorted(
        {*picked, *[i for i in range(old) if i not in picked][: max(0, _LAYERS - len(picked))]}
    )
    for key, value in lists.items():
        values[key] = [value[i] for i in picked]
    for key in depths:
        values[key] = len(picked)
    for key in _OF_STAGES:
        values.pop(key, None)


# ------------------------------------------------------------------ weights and inputs
def randomize(model: torch.nn.Module, seed: int) -> None:
    """Random weights in which nothing is left at a constant: a norm weight of ones hides where it
    is applied.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point():
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() < 2:
                parameter.add_(0.3 * noise.to(parameter.dtype))
            else:
                parameter.copy_(noise / max(parameter.shape[-1], 1) ** 0.5)


def inputs(model: Any, seed: int) -> dict[str, Any]:
    """Keyword inputs of a model's forward, by its main input and its parameters' names."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    names = set(inspect.signature(inspect.unwrap(type(model).forward)).parameters)
    main = getattr(model, "main_input_name", "input_ids")
    made: dict[str, Any] = {}
    if "input_ids" in names or main == "input_ids":
        vocabulary = getattr(text, "vocab_size", None) or VOCABULARY
        length = (BATCH, SEQUENCE)
        made["input_ids"] = torch.randint(
            min(3, vocabulary - 1), vocabulary - 1, length, generator=generator
        )
        made["attention_mask"] = torch.ones(length, dtype=torch.long)
        made["attention_mask"][0, :3] = 0
        if "attention_mask" not in names:
            del made["attention_mask"]
    if main == "pixel_values":
        size, channels = getattr(config, "image_size", _IMAGE), getattr(config, "num_channels", 3)
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        made["pixel_values"] = torch.randn(BATCH, channels, height, width, generator=generator)
    if main == "input_features":
        made["input_features"] = torch.randn(
            BATCH, 64, getattr(config, "num_mel_bins", 16), generator=generator
        )
    if main == "input_values":
        made["input_values"] = torch.randn(BATCH, 4000, generator=generator)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in names:
        made["decoder_input_ids"] = made.get("input_ids", torch.ones(BATCH, 5, dtype=torch.long))[
            :, :5
        ]
    return made
