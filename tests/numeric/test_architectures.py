"""Every registered text architecture gives the same logits, tokens and strides with the hook.

To the bit with references, and within float32's bound with kernels.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import architectures
import harness
import modes
import pytest

HERE = Path(__file__).resolve().parent
MODES = (modes.REFERENCES, modes.KERNELS)
TYPES = [t for t in architectures.all_types() if t not in architectures.EXCLUDED]


@pytest.fixture(scope="session")
def results(request, tmp_path_factory):
    """Result lines of the selected architectures, from one run of architectures.py."""
    wanted, wanted_modes = [], set()
    for item in request.session.items:
        spec = getattr(item, "callspec", None)
        if spec is not None and "line_of" in spec.params:
            mode, model_type = spec.params["line_of"]
            wanted.append(model_type)
            wanted_modes.add(mode)
    folder = tmp_path_factory.mktemp("architectures")
    out = folder / "results.json"
    environment = {
        **os.environ,
        "TFR_BIN": harness.binary(),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            str(HERE / "architectures.py"),
            "--json",
            str(out),
            "--modes",
            ",".join(sorted(wanted_modes) or MODES),
            *dict.fromkeys(wanted),
        ],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert out.exists(), done.stderr[-2000:]
    return json.loads(out.read_text())


@pytest.mark.parametrize(
    "line_of", [modes.parameter(mode, t, id=t) for mode in MODES for t in TYPES]
)
def test_equal(results, line_of, figures):
    mode, model_type = line_of
    line = results[model_type][mode]
    assert line["error"] is None, line["error"]
    if line["rewritten"]:
        name = mode if model_type not in architectures.UNSTABLE else f"{mode}, {model_type}"
        figures(f"architectures, max-rel, {name}", float(line["max_rel"]))
    assert mode == modes.KERNELS or set(line["paths"]) <= {"reference", "helper"}


@pytest.mark.parametrize("mode", [modes.parameter(mode) for mode in MODES])
def test_ops_ran(results, mode):
    """Equality alone would hold for a hook that does nothing, or without kernels."""
    if len(results) < len(TYPES):
        pytest.skip("a selection of architectures")
    lines = {t: line[mode] for t, line in results.items()}
    path = "reference" if mode == modes.REFERENCES else modes.kernel_path()
    rewritten = [t for t, line in lines.items() if line["rewritten"]]
    called = [t for t, line in lines.items() if line["paths"].get(path)]
    idle = sorted(set(rewritten) - set(called))
    print(
        f"{len(rewritten)} of {len(lines)} architectures use rewritten modules,",
        f"{len(called)} ran a {path}; none in {idle}",
    )
    assert len(rewritten) >= FEWEST_REWRITTEN and len(called) >= FEWEST_REWRITTEN


FEWEST_REWRITTEN = 260


def test_exclusions_are_registered_and_explained():
    registered = architectures.all_types()
    for table in (architectures.EXCLUDED, architectures.FORWARD_ONLY):
        for model_type, reason in table.items():
            assert model_type in registered and len(reason) > 20
    assert len(architectures.EXCLUDED) <= 6
    for model_type, (bound, reason) in architectures.UNSTABLE.items():
        assert model_type in registered and bound < 1e-3 and len(reason) > 20
    assert len(architectures.UNSTABLE) <= 3


# ------------------------------------------------------------------ the harness itself
def result(scale=1.0, tokens=None, transpose=False):
    import torch

    logits = torch.linspace(-1, 1, 2 * 3 * 8).view(2, 3, 8) * scale
    steps = [logits[:, i].contiguous() for i in range(3)]
    if transpose:
        logits = logits.transpose(0, 1).contiguous().transpose(0, 1)
    sequences = tokens if tokens is not None else torch.full((2, 5), 7)
    return {
        "outputs": {"logits": logits},
        "generated": {"sequences": sequences, "logits": steps},
        "calls": {"rope": 2},
        "paths": {"reference": 2},
        "rewritten": ["m"],
    }


def test_comparison_sees_what_it_should():
    import torch

    other = torch.full((2, 5), 7)
    other[1, 4] = 3
    assert architectures.compare_results(result(), result())["error"] is None
    assert (
        "largest difference"
        in architectures.compare_results(result(), result(scale=1.001))["error"]
    )
    assert "strides" in architectures.compare_results(result(), result(transpose=True))["error"]
    assert "without a tie" in architectures.compare_results(result(), result(tokens=other))["error"]
    assert (
        "with the hook" in architectures.compare_results(result(), {"error": "ValueError"})["error"]
    )
    assert "plainly" in architectures.compare_results({"error": "ValueError"}, result())["error"]


def test_a_run_that_dies_is_charged_to_its_architecture():
    code = (
        "import architectures as a, os, json\n"
        "def build(name):\n"
        "    if name == 'llama': os.abort()\n"
        "    raise ValueError('broken')\n"
        "a.build = build\n"
        "lines = a.run_all(['llama', 'mpt'], modes=('plain',))\n"
        "print(json.dumps({t: line['plain']['error'] for t, line in lines.items()}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=HERE
    )
    errors = json.loads(done.stdout.splitlines()[-1])
    assert "SIGABRT" in errors["llama"] and "ValueError: broken" in errors["mpt"], errors
