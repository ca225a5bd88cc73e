"""After `tfrewrite warmup` a run finds every kernel: no compiler is started, none is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

SCRIPT = """
import sys

import tfrewrite
import torch
from transformers import AutoConfig

tfrewrite.enable(target="host")
from transformers import AutoModelForCausalLM

config = AutoConfig.from_pretrained(sys.argv[1])
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, sys.argv[2])).eval()
with torch.inference_mode():
    model(torch.arange(1, 9)[None])
"""
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def kernels(binary, environment) -> set[str]:
    done = subprocess.run(
        [binary, "cache", "ls", "--json"], capture_output=True, env=environment, check=True
    )
    items = json.loads(done.stdout)["items"]
    return {item["label"] for item in items if item["kind"] == "kernel"}


# Per-head norms; sums before norms with another rounding; float32 cosines in a bfloat16 model.
@pytest.mark.parametrize(
    ("family", "dtype"), [("qwen3", "bfloat16"), ("gemma2", "float32"), ("olmo2", "bfloat16")]
)
def test_a_warmed_model_compiles_nothing(binary, family, dtype, tmp_path):
    environment = {**os.environ, "TFR_CACHE_DIR": str(tmp_path / "cache"), "TFR_JIT": "sync"}
    config = transformers.CONFIG_MAPPING[family](**SIZES, dtype=dtype)
    config.save_pretrained(tmp_path)
    modeling = Path(transformers.__file__).parent / f"models/{family}/modeling_{family}.py"
    done = subprocess.run(
        [binary, "warmup", modeling, "--config", tmp_path / "config.json"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "not warmed" not in done.stderr and " 0 failed" in done.stderr
    warmed = kernels(binary, environment)
    assert len(warmed) >= 5
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path, dtype],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "KernelWarning" not in done.stderr
    assert kernels(binary, environment) == warmed
