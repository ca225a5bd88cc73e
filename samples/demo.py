"""The demo: rewrites the installed modeling_qwen3.py and runs a random model of both files.

Prints the report, the size of the diff, how far the outputs differ, with reference ops and with
kernels, and the speed of prefill and decode against the original. Exits 1 if an expected op is
missing, an op ran without its kernel, or the numbers differ by more than the bounds below. Run it
through `cmake --workflow --preset demo`, or with TFR_BIN set: python samples/demo.py --out FOLDER
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import torch
from tfrewrite import kernels, ops, prepare, rules
from transformers import DynamicCache, Qwen3Config
from transformers.models.qwen3 import modeling_qwen3 as original

EXPECTED = {"rms_norm", "linears", "linear", "qk_norm_rope", "act_mul", "add_rms_norm"}
KERNELS = {"jit", "generic", "torch"}  # the paths of an op that are no fallback
MAX_REL = 1e-5  # float32 with kernels: largest difference over the largest magnitude
# bfloat16 with kernels: norms and element-wise ops round where the source rounds, a matrix product
# is one rounding of a float32 sum. So the distance to the float32 result is no worse.
MAX_ERROR_RATIO = 1.05
CONFIG = dict(  # Qwen3-0.6B's sizes, but 4 layers and fewer tokens
    vocab_size=16384,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=4,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=512,
)
DTYPES = torch.float32, torch.bfloat16
PROMPT, STEPS = 64, 12
SPEED_PROMPT, ROUNDS = 128, 3


def rewrite(out: Path) -> Path:
    """Rewrites the installed file; its own report goes to the terminal."""
    program = os.environ.get("TFR_BIN", "tfrewrite")
    source = Path(original.__file__)
    # The same last folders: Transformers' docstring decorators read them.
    target = out / "transformers" / "models" / "qwen3" / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [program, "--target", "host"]
    subprocess.run([*command, "-o", target, source], check=True)
    report = json.loads(subprocess.check_output([*command, "--json", source]))
    fused = {entry["op"] for entry in report["files"][0]["fused"]}
    if EXPECTED - fused:
        sys.exit(f"demo: not fused: {', '.join(sorted(EXPECTED - fused))}")
    diff = subprocess.check_output([*command, "-d", source], text=True)
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


def cast(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """The parameters alone, as from_pretrained does: rope's frequencies stay float32."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def use_ops(mode: str) -> None:
    """TFR_OPS for the ops of this process; it is read when they are installed."""
    os.environ["TFR_OPS"] = mode
    ops.install(rules.load())


# ------------------------------------------------------------------ are they equal?
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


def good(name: str, want: torch.Tensor, got: torch.Tensor, exact: torch.Tensor) -> bool:
    """Prints one line. `name` starts with the mode: reference ops must give the same bits."""
    equal = (want == got).double().mean().item()
    largest = (want.double() - got.double()).abs().max().item()
    rel = largest / want.double().abs().max().item()
    line = f"{name:<30} {equal:>9.2%} {rel:>12.2e}"
    ok = torch.equal(want, got)
    if not name.startswith("references"):
        ok = rel <= MAX_REL
        if want.dtype == torch.bfloat16:
            ratio = rms(got.float() - exact) / rms(want.float() - exact)
            ok = ratio <= MAX_ERROR_RATIO
            line += f"   error against float32: {ratio:.3f} of the original's"
    print(line if ok else f"{line}   NOT GOOD ENOUGH")
    return ok


def compare(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    ids = torch.randint(0, CONFIG["vocab_size"], (2, PROMPT + STEPS))
    ok, took = True, Counter()
    print(f"\n{'logits':<30} {'equal':>9} {'largest rel':>12}")
    for dtype in DTYPES:
        cast(first, dtype), cast(second, dtype)
        want = logits(first, ids)
        exact = logits(cast(first, torch.float32), ids)  # of the rounded weights
        for mode, words in (("ref", "references"), ("auto", "kernels")):
            use_ops(mode)
            if mode == "auto":
                logits(second, ids)  # asks for the kernels, which are compiled in the background
                kernels.wait()
            with ops.record() as counter:
                got = logits(second, ids)
            if mode == "auto":
                took += counter
            for part in want:
                name = f"{words}, {str(dtype)[6:]} {part}"
                ok = good(name, want[part], got[part], exact[part]) and ok
    cast(second, torch.float32)
    prompt = ids[:, :PROMPT]
    same = [m.generate(prompt, max_new_tokens=STEPS, do_sample=False) for m in (first, second)]
    tokens = torch.equal(*same)
    print(f"{'kernels, float32 generate':<30} {'same' if tokens else 'OTHER'} tokens")
    return kernels_ran(took) and ok and tokens


def kernels_ran(took: Counter[tuple[str, str, str]]) -> bool:
    by_path: dict[str, set[str]] = {}
    for op, _variant, path in took:
        by_path.setdefault(path, set()).add(op)
    print("\nwhat ran with kernels on:")
    for path, names in sorted(by_path.items()):
        print(f"{path:>10}  {', '.join(sorted(names))}{'' if path in KERNELS else '   NO KERNEL'}")
    return set(by_path) <= KERNELS


# ------------------------------------------------------------------ how fast are they?
def seconds(call, model: torch.nn.Module) -> float:
    start = time.process_time()
    call(model)
    return time.process_time() - start


def speed(first: torch.nn.Module, second: torch.nn.Module) -> None:
    """CPU time on one thread, original and rewritten in turn: a busy machine slows both alike."""
    torch.set_num_threads(1)
    ids = torch.randint(0, CONFIG["vocab_size"], (1, SPEED_PROMPT))

    def prefill(model):
        model(ids, use_cache=True, logits_to_keep=1)

    def decode(model):
        cache = DynamicCache(config=model.config)
        for i in range(STEPS):
            model(ids[:, i : i + 1], cache=cache, use_cache=True)

    print(f"\n{'tokens per second of CPU':<30} {'original':>9} {'rewritten':>12} {'ratio':>8}")
    for dtype in DTYPES:
        cast(first, dtype), prepare(cast(second, dtype))
        for name, call, tokens in (
            (f"prefill, {SPEED_PROMPT} tokens", prefill, SPEED_PROMPT),
            ("decode, one by one", decode, STEPS),
        ):
            times = []
            for number in range(ROUNDS + 1):
                pair = seconds(call, first), seconds(call, second)
                if number >= 1:  # the first warms up
                    times.append(pair)
            a, b = (tokens / statistics.median(column) for column in zip(*times, strict=True))
            ratio = statistics.median(before / after for before, after in times)
            print(f"{str(dtype)[6:]} {name:<{29 - len(str(dtype)[6:])}}", end=" ")
            print(f"{a:>9.1f} {b:>12.1f} {ratio:>7.2f}x")
    print(f"CPU time, one thread, {CONFIG['num_hidden_layers']} layers; more: bench/model.py")


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
