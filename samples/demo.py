"""The demo: rewrites the installed modeling_qwen3.py and runs a small random model of both files.

Prints the report, the size of the diff, how far the outputs differ and how long both take. Exits 1 if
an expected op is missing or the numbers differ by more than the bounds below. Run it through
`cmake --workflow --preset demo`, or with TFR_BIN set: python samples/demo.py --out FOLDER
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import torch
from transformers import DynamicCache, Qwen3Config
from transformers.models.qwen3 import modeling_qwen3 as original

EXPECTED = {"rms_norm", "linears", "qk_norm_rope", "act_mul", "add_rms_norm"}
MAX_REL = 1e-5  # float32: largest difference over the largest magnitude
# bfloat16: the references keep every rounding point (another order of two roundings in one norm
# leaves 16% of the logits equal), and the distance to the float32 result is no worse.
MIN_EQUAL = 0.999
MAX_ERROR_RATIO = 1.05
CONFIG = dict(
    vocab_size=1024,
    hidden_size=256,
    intermediate_size=768,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=32,
    max_position_embeddings=512,
)
PROMPT, STEPS = 64, 16


def rewrite(out: Path) -> Path:
    """Rewrites the installed file; its own report goes to the terminal."""
    program = os.environ.get("TFR_BIN", "tfrewrite")
    source = Path(original.__file__)
    # The same last folders: Transformers' docstring decorators read them.
    target = out / "transformers" / "models" / "qwen3" / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([program, "-o", target, source], check=True)
    report = json.loads(subprocess.check_output([program, "--json", source]))
    fused = {entry["op"] for entry in report["files"][0]["fused"]}
    if EXPECTED - fused:
        sys.exit(f"demo: not fused: {', '.join(sorted(EXPECTED - fused))}")
    diff = subprocess.check_output([program, "-d", source], text=True)
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    (out / "modeling_qwen3.diff").write_text(diff)
    print(f"\nrewritten: {target}\ndiff:      {out / 'modeling_qwen3.diff'} (+{added} -{removed})")
    return target


def load(path: Path) -> ModuleType:
    """The rewritten file as a module beside the original, so that its relative imports work."""
    name = "transformers.models.qwen3.modeling_qwen3_rewritten"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def models(rewritten: ModuleType) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The same random weights in both; norm weights not all 1, so that their place matters."""
    torch.manual_seed(0)
    config = Qwen3Config(**CONFIG)
    first = original.Qwen3ForCausalLM(config).eval()
    for parameter in first.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 1.0, 0.2)
    second = rewritten.Qwen3ForCausalLM(config).eval()
    second.load_state_dict(first.state_dict())
    return first, second


def logits(model: torch.nn.Module, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Prefill of PROMPT tokens, then the rest one by one through the cache."""
    cache = DynamicCache(config=model.config)
    prefill = model(ids[:, :PROMPT], cache=cache, use_cache=True).logits
    steps = [
        model(ids[:, i : i + 1], cache=cache, use_cache=True).logits
        for i in range(PROMPT, ids.shape[1])
    ]
    return {"prefill": prefill, "decode": torch.cat(steps, 1)}


def rms(x: torch.Tensor) -> float:
    return x.double().pow(2).mean().sqrt().item()


def compare(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    ids = torch.randint(0, CONFIG["vocab_size"], (2, PROMPT + STEPS))
    reference = logits(first, ids)
    ok = True
    print(f"\n{'':22} {'bitwise equal':>14} {'largest relative difference':>29}")
    for dtype in (torch.float32, torch.bfloat16):
        want, got = logits(first.to(dtype), ids), logits(second.to(dtype), ids)
        if dtype == torch.bfloat16:  # what the rounded weights give without further rounding
            reference = logits(first.float(), ids)
        for part in want:
            a, b, exact = want[part], got[part], reference[part]
            equal = (a == b).double().mean().item()
            rel = ((a.double() - b.double()).abs().max() / a.double().abs().max()).item()
            line = f"{str(dtype)[6:]:>10} {part:<11} {equal:>13.2%} {rel:>29.2e}"
            if dtype == torch.float32:
                good = rel <= MAX_REL
            else:
                ratio = rms(b.float() - exact) / rms(a.float() - exact)
                good = equal >= MIN_EQUAL and ratio <= MAX_ERROR_RATIO
                line += f"   error against float32: {ratio:.3f} of the original's"
            print(line if good else f"{line}   NOT GOOD ENOUGH")
            ok = ok and good
        first.to(torch.float32), second.to(torch.float32)
    same = [
        m.generate(ids[:, :PROMPT], max_new_tokens=STEPS, do_sample=False) for m in (first, second)
    ]
    tokens_equal = torch.equal(*same)
    print(
        f"{'float32':>10} {'generate':<11} {'same tokens' if tokens_equal else 'OTHER TOKENS':>14}"
    )
    return ok and tokens_equal


def seconds(call, model: torch.nn.Module) -> float:
    start = time.perf_counter()
    call(model)
    return time.perf_counter() - start


def speed(first: torch.nn.Module, second: torch.nn.Module, rounds: int = 15) -> None:
    """Original and rewritten in turn, so that a busy machine slows both."""
    ids = torch.randint(0, CONFIG["vocab_size"], (1, 256))

    def prefill(model):
        model(ids, use_cache=False)

    def decode(model):
        cache = DynamicCache(config=model.config)
        for i in range(STEPS):
            model(ids[:, i : i + 1], cache=cache, use_cache=True)

    print(f"\n{'milliseconds (median)':<22} {'original':>14} {'rewritten':>14} {'ratio':>14}")
    for name, call in (("prefill 256 tokens", prefill), (f"decode {STEPS} tokens", decode)):
        times = []
        for number in range(rounds + 2):
            pair = seconds(call, first), seconds(call, second)
            if number >= 2:  # the first two warm up
                times.append(pair)
        a, b = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
        print(f"{name:<22} {a:>14.1f} {b:>14.1f} {b / a:>13.2f}x")
    print(
        "The fused ops run their Python references here: what this shows is the price of the calls,"
        "\nnot the gain of kernels."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    args = parser.parse_args()
    first, second = models(load(rewrite(args.out)))
    with torch.inference_mode():
        ok = compare(first, second)
        speed(first, second)
    print("\ndemo: the rewritten model equals the original" if ok else "\ndemo: the outputs DIFFER")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
