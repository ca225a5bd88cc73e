"""`python -m tfrewrite verify`: the verdict, the figures, the exit status."""

import json

import pytest
import transformers.modeling_utils  # noqa: F401  (once, for all children)
from child import Child
from demo_code import MODELING


@pytest.fixture
def verify(standin, hub_code, tmp_path):
    def go(*options, file=hub_code, **environment):
        words = [str(file), *map(str, options)]
        text = f"from tfrewrite import verify\nraise SystemExit(verify.main({words!r}))"
        return Child(text, tmp_path, without=("tfrewrite",), **environment).wait()

    return go


def test_same(verify):
    done = verify()
    assert done.returncode == 0, done.stderr
    assert "DemoModel: " in done.stdout and "last_hidden_state" in done.stdout
    assert "2x11x64" in done.stdout and "largest difference 0" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("same: largest difference 0 ")
    assert "not exercised" not in done.stdout


def test_a_wrong_rewrite_is_found(verify):
    done = verify(STANDIN="wrong")
    assert done.returncode == 1, done.stderr
    assert "DIFFERENT: largest difference" in done.stdout.splitlines()[-1]


def test_bound(verify):
    assert verify("--max-rel", "10", STANDIN="wrong").returncode == 0


def test_refused(verify):
    done = verify(STANDIN="refuse")
    assert done.returncode == 3 and "brackets too deep" in done.stderr


@pytest.mark.parametrize("fault", ["usage", "crash", "no report"])
def test_fault_of_the_program(verify, fault):
    assert verify(STANDIN=fault).returncode == 2


def test_missing_file(verify, tmp_path):
    done = verify(file=tmp_path / "missing.py")
    assert done.returncode == 2 and "missing.py" in done.stderr


def test_nothing_to_compare_is_said(verify, hub_code):
    hub_code.write_text("x = 1\n")
    done = verify()
    assert done.returncode == 0 and "NOTHING to compare" in done.stdout


def test_original_that_cannot_be_imported(verify, hub_code):
    hub_code.write_text(MODELING.replace("class DemoMLP", "import not_there\n\n\nclass DemoMLP"))
    done = verify()
    assert done.returncode == 2 and "itself cannot be imported" in done.stderr


def test_rewritten_that_cannot_be_imported(verify, tmp_path, standin):
    other = tmp_path / "standin.py"
    other.write_text(
        standin.read_text().replace("from tfrewrite import ops", "from tfrewrite import opps")
    )
    other.chmod(0o755)
    done = verify(TFR_BIN=str(other))
    assert done.returncode == 1 and "cannot be imported" in done.stdout


def test_nothing_that_runs(verify, hub_code):
    hub_code.write_text(
        MODELING.replace("x = self.embed(input_ids)", "raise RuntimeError('broken')")
    )
    done = verify()
    assert done.returncode == 2
    assert "DemoModel: not run: RuntimeError: broken" in done.stdout
    assert "DemoForWhatCannotRun: not run: RuntimeError: needs a camera" in done.stdout


def test_configuration_file(verify, tmp_path):
    values = {"model_type": "demo", "hidden_size": 24, "vocab_size": 40, "num_hidden_layers": 6}
    (tmp_path / "config.json").write_text(json.dumps(values))
    done = verify("--config", tmp_path / "config.json")
    assert done.returncode == 0 and "2x11x24" in done.stdout
    small = int(done.stdout.split("DemoModel: ")[1].split(" parameters")[0].replace(",", ""))
    done = verify("--config", tmp_path / "config.json", "--every-layer")
    large = int(done.stdout.split("DemoModel: ")[1].split(" parameters")[0].replace(",", ""))
    assert large - small == 4 * 2 * (24 * 24 + 24)


@pytest.mark.parametrize("text", [None, "{"])
def test_faulty_configuration_file(verify, tmp_path, text):
    if text:
        (tmp_path / "config.json").write_text(text)
    assert verify("--config", tmp_path / "config.json").returncode == 2


def test_classes_that_no_model_uses_are_named(verify, hub_code):
    unused = MODELING.replace("[DemoMLP(size) for _ in range(depth)]", "[]")
    hub_code.write_text(unused)
    done = verify()
    assert "not exercised by these models: DemoMLP" in done.stdout
