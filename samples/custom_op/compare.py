"""Rewrites model.py with the rule file beside it, runs both models, and compares them.

Where the reference runs the bits are the same. The kernel's tanh is within 2 ulp of the right
float, as torch's is, so there they may differ in the last place.

python samples/custom_op/compare.py
"""

import sys
from pathlib import Path
from types import ModuleType

import tfrewrite
import torch

HERE = Path(__file__).resolve().parent


def load(name: str, text: str) -> ModuleType:
    module = ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def main() -> int:
    original = HERE / "model.py"
    result = tfrewrite.rewrite(original, rules=HERE / "rules")
    for block in result.fused:
        print(f"{block['class']}.{block['function']}: {block['op']}, line {block['line']}")
    names = tfrewrite.rules.add(HERE / "rules")  # or: TFR_RULES=DIR, or tfrewrite.enable(rules=DIR)
    print("ops of the rule files:", ", ".join(names))

    same = bool(result.fused)
    last_place = {torch.float32: 2**-21, torch.bfloat16: 2**-7, torch.float16: 0.0}
    for dtype, bound in last_place.items():
        outputs = []
        for module in (load("before", original.read_text()), load("after", result.text)):
            torch.manual_seed(0)
            model = module.Model().to(dtype)
            with torch.inference_mode(), tfrewrite.ops.record() as calls:
                outputs.append(model(torch.arange(48).view(2, 24) % 64).double())
        paths = sorted({path for op, _, path in calls if op == "squash"})
        difference = (outputs[0] - outputs[1]).abs().max() / outputs[0].abs().max()
        print(f"{str(dtype)[6:]:>8}: {', '.join(paths)}: off by {difference:.1e} of the largest")
        same = same and difference <= (bound if paths != ["reference"] else 0.0)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
