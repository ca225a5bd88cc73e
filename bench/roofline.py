"""How long the CUDA kernels must take at least: the bytes that they move over a GPU's memory bandwidth.

No GPU is needed, and nothing is timed. Bytes are counted by tests/ptxsim, which runs NVRTC's PTX of
each kernel: verified on PTX. The bound says what no kernel with these inputs can beat; how near to
it a kernel comes is a matter of a GPU (tests/gpu). Shapes are Qwen3-4B's, in bfloat16. 4096 tokens
are counted as 128 on 4 multiprocessors, which gives each block as many rows as 4096 on 128 would,
and scaled; one token as it is. Run it through `cmake --build build/test --target bench-roofline`, or
with TFR_BIN set: python bench/roofline.py
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/cuda")]

import simulated  # noqa: E402 - the driver comes before torch
import torch  # noqa: E402
from shapes import BF16, gated_arguments, values  # noqa: E402
from tfrewrite import activations  # noqa: E402
from traffic import Traffic, measure  # noqa: E402

# Bytes a second, as in NVIDIA's data sheets.
PEAKS = {
    "H100 SXM": 3.35e12,  # nvidia.com/en-us/data-center/h100: "GPU memory bandwidth 3.35TB/s"
    "H200": 4.8e12,  # nvidia.com/en-us/data-center/h200: "GPU memory bandwidth 4.8TB/s"
    "B200": 8.0e12,  # DGX B200 data sheet: 64 TB/s of HBM3e for eight of them
}
HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD = 2560, 9728, 32, 8, 128
SILU = activations.ACTS.index("SILU")
TOKENS, FEW, MULTIPROCESSORS = 4096, 128, 4


def calls(tokens: int):
    """(what it is in the model, op, reference, arguments)"""
    x, y = values((1, tokens, HIDDEN), BF16, 1), values((1, tokens, HIDDEN), BF16, 2)
    weight = values((HIDDEN,), BF16, 3)
    gate, up = (values((1, tokens, INTERMEDIATE), BF16, i) for i in (4, 5))
    q, k = (values((1, tokens, h, HEAD), BF16, 6) for h in (HEADS, KV_HEADS))
    cos, sin = (values((1, tokens, HEAD), BF16, i) for i in (7, 8))
    w = values((HEAD,), BF16, 9)
    norms = (w, 1e-6, 0, w.clone(), 1e-6, 0)
    yield "input_layernorm", "rms_norm", "cast_then_weight", (x, weight, 1e-6)
    yield (
        "post_attention_layernorm",
        "add_rms_norm",
        "add_then_norm",
        (x, y, weight, 1e-6, 0),
    )
    yield (
        "layers with layer norms",
        "add_layer_norm",
        "add_then_norm",
        (x, y, weight, weight.clone(), 1e-6, HIDDEN),
    )
    heads = q.transpose(1, 2)
    yield "queries of linear attention", "l2_norm", "by_rsqrt_in_float32", (heads, 1e-6)
    gated = "cast_weight_then_gate"
    for where, value in (("output of linear attention", q), ("the same, whole rows", x)):
        w = values((value.shape[-1],), BF16, 10)
        numbers = gated_arguments(gated, value, value.clone(), SILU, w)
        yield where, "gated_rms_norm", gated, numbers
    yield "as many logits", "softcap", "in_its_dtype", (gate, 30.0)
    yield "mlp", "act_mul", "two_inputs", (SILU, gate, up)
    yield (
        "q_norm, k_norm, rope",
        "qk_norm_rope",
        "norm_transpose_rope",
        (q, k, *norms, cos, sin, 1),
    )
    yield (
        "rope alone",
        "rope",
        "half_both",
        (q.transpose(1, 2), k.transpose(1, 2), cos, sin, 1),
    )


def row(tokens: int, scale: int, where: str, op: str, variant: str, arguments: tuple) -> dict:
    t: Traffic = measure(op, variant, *arguments)
    once = sum(
        a.nbytes for a in arguments if isinstance(a, torch.Tensor) and a.dim() == 1
    )  # weights
    must = (t.least - once) * scale + once
    return {
        "tokens": tokens,
        "where": where,
        "op": op,
        **asdict(t),
        "least": must,
        "requested": t.requested
        * scale,  # weights come once for each block, of which there are more
        "ratio": t.requested * scale / must,
        "microseconds": {gpu: must / peak * 1e6 for gpu, peak in PEAKS.items()},
    }


def table(rows: list[dict]) -> str:
    head = ["tokens", "op", "must move", "asks for", "ratio", "sectors used", "128 bits"]
    head += [f"{gpu}, at least" for gpu in PEAKS]
    lines = [head, ["---"] * len(head)]
    for r in rows:
        lines.append(
            [
                str(r["tokens"]),
                f"{r['op']} ({r['where']})",
                f"{r['least'] / 1e6:.3f} MB",
                f"{r['requested'] / 1e6:.3f} MB",
                f"{r['ratio']:.3f}",
                f"{r['sectors_used']:.3f}",
                f"{r['wide']:.3f}",
                *(f"{us:.3f} us" for us in r["microseconds"].values()),
            ]
        )
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="writes the figures there too")
    options = parser.parse_args()
    simulated.configure(sms=MULTIPROCESSORS)
    rows = [row(1, 1, *call) for call in calls(1)]
    rows += [row(TOKENS, TOKENS // FEW, *call) for call in calls(FEW)]
    print(table(rows))
    print("\nLower bounds of time: what must be moved over the peak bandwidth of the data sheets.")
    print(
        f"Verified on PTX; {TOKENS} tokens scaled from {FEW} on {MULTIPROCESSORS} multiprocessors."
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
