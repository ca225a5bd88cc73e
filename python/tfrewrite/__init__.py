"""tfrewrite: fused ops written into the source of Transformers models.

    import tfrewrite
    tfrewrite.enable()              # modeling modules are rewritten as they are imported
    model = AutoModelForCausalLM.from_pretrained(...)
    print(tfrewrite.report(model))  # what is fused in it, what is not, and why

Importing this package imports neither torch nor transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfrewrite import ops, rules
    from tfrewrite.hook import TfrewriteWarning, disable, enable
    from tfrewrite.model_report import ModelReport, report
    from tfrewrite.packing import Packing, prepare, unpack
    from tfrewrite.program import Result, RewriteError, rewrite

__all__ = [
    "ModelReport",
    "Packing",
    "Result",
    "RewriteError",
    "TfrewriteWarning",
    "disable",
    "enable",
    "ops",
    "prepare",
    "report",
    "rewrite",
    "rules",
    "unpack",
]

_HOME = {
    "ModelReport": "model_report",
    "Packing": "packing",
    "Result": "program",
    "RewriteError": "program",
    "TfrewriteWarning": "hook",
    "disable": "hook",
    "enable": "hook",
    "prepare": "packing",
    "report": "model_report",
    "rewrite": "program",
    "unpack": "packing",
}


def __getattr__(name: str) -> Any:
    if name in ("ops", "rules"):
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
