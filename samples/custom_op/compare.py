"""Rewrites model.py with the rule file beside it, runs both models, and compares them bit by bit.

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
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        outputs = []
        for module in (load("before", original.read_text()), load("after", result.text)):
            torch.manual_seed(0)
            model = module.Model().to(dtype)
            with torch.inference_mode():
                outputs.append(model(torch.arange(48).view(2, 24) % 64))
        equal = torch.equal(*outputs)
        print(f"{str(dtype)[6:]:>8}: {'the same bits' if equal else 'OTHER BITS'}")
        same = same and equal
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
