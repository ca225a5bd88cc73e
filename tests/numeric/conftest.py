"""Paths, threads, and the largest difference of each check, printed at the end of a run."""

import math
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in (str(ROOT / "python"), str(HERE.parent), str(HERE)):
    if folder not in sys.path:
        sys.path.insert(0, folder)
os.environ.setdefault(
    "HF_HUB_OFFLINE", "1"
)  # nothing here needs the hub; a slip shows as an error, not as a download
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")])
)

import modes  # noqa: E402, F401 - sets the environment of the ops
import torch  # noqa: E402

torch.set_num_threads(1)
_worst = pytest.StashKey[dict]()


def pytest_configure(config):
    config.stash[_worst] = {}


@pytest.fixture
def figures(request):
    """figures(check, Figures or number): keeps the worst of each check for the summary."""

    def keep(check, value):
        seen = request.config.stash[_worst].setdefault(check, [])
        seen.append(value)
        return value

    return keep


def pytest_terminal_summary(terminalreporter, config):
    worst = config.stash[_worst]
    if not worst:
        return
    terminalreporter.section("largest differences")
    for check, values in sorted(worst.items()):
        if isinstance(values[0], float):
            line = f"largest {max(values):.4g}, smallest {min(values):.4g}"
        else:
            line = (
                f"{sum(v.tensors for v in values)} tensors,"
                f" float32 max-rel {max(v.max_rel for v in values):.3g},"
                f" bfloat16 elements off {100 * max(v.ulp_share for v in values):.3g}%"
            )
            if most := max(v.max_ulp for v in values):
                line += f" by {most} ulp"
            if ratios := [r for v in values for r in v.ratios]:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                line += f", errors {mean:.3f} times the original's, largest {max(ratios):.3f}"
        terminalreporter.write_line(f"{check}: {line}")
