"""Paths, and the mark `kernels` on every test here: a sanitised build, which Python cannot load,
takes none of them.
"""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in map(str, (ROOT / "python", HERE.parent, HERE.parent / "numeric", HERE)):
    if folder not in sys.path:
        sys.path.insert(0, folder)
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here needs the hub
os.environ.setdefault("TFR_JIT", "sync")  # read when tfrewrite is imported, in any process of ours
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")])
)


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernels)
