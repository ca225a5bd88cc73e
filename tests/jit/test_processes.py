"""What users start: `python -m tfrewrite run`, a home with a cache in it, an end while a compiler runs."""

import json
import os
import subprocess
import sys

import pytest
import torch
from forked import check_ends

MODEL = """
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

config = Qwen3Config(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, head_dim=8,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
)
torch.set_num_threads(1)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config).eval()
ids = torch.arange(1, 15).view(2, 7)
"""
SCRIPT = (
    MODEL
    + """
import json
from tfrewrite import ops

with torch.no_grad(), ops.record() as calls:
    logits = model(ids).logits
paths = {path for op, _, path in calls if not op.startswith("linear")}
print(json.dumps([sorted(paths), logits.flatten().tolist()]))
"""
)


@pytest.fixture
def logged(compiler, place):
    """A compiler that notes every run of it, whatever it is asked."""
    path = place / "cc"
    path.write_text(f'#!/bin/sh\necho >> {place}/log\nexec {compiler.path} "$@"\n')
    path.chmod(0o755)
    return path


def test_the_second_process_compiles_nothing(logged, compiler, place):
    (place / "script.py").write_text(SCRIPT)
    home = place / "home"
    home.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "TFR_CACHE_DIR"}
    environment |= dict(HOME=str(home), XDG_CACHE_HOME="", TFR_CC=str(logged))

    def start():
        command = [sys.executable, "-m", "tfrewrite", "run", str(place / "script.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr, done.stderr
        return json.loads(done.stdout)

    paths, first = start()
    assert paths == ["jit"] and compiler.runs() == 4
    ran = (place / "log").stat().st_size
    before = {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in home.rglob("*.tfr*")}
    assert len(before) == 5 and all(p.is_relative_to(home / ".cache/tfrewrite") for p in before)
    paths, second = start()
    assert paths == ["jit"] and compiler.runs() == 4
    assert (place / "log").stat().st_size == ran  # not even for its version
    assert {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in home.rglob("*.tfr*")} == before

    here: dict = {}
    exec(MODEL, here)
    with torch.no_grad():
        expected = here["model"](here["ids"]).logits.flatten()
    for got in (torch.tensor(first), torch.tensor(second)):
        assert (got - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise ValueError"])
def test_an_end_while_a_compiler_runs(place, end):
    """It is stopped, and its files are removed."""
    (place / "temporary").mkdir()
    compiler = place / "cc"
    compiler.write_text(f"""#!/bin/sh
case "$1" in -std=*)
    touch "$TMPDIR/of its own"
    sleep 1000 &
    echo $! > {place}/pid.new && mv {place}/pid.new {place}/pid
    wait ;;
esac
exec cc "$@"
""")
    compiler.chmod(0o755)
    script = f"""
import os, sys, time, torch, tfrewrite.ops
torch.ops.tfr.rms_norm.no_weight(torch.ones(2, 16), 1e-6)
while not os.path.exists("{place}/pid"):
    time.sleep(0.01)
{end}
"""
    places = dict(TFR_CACHE_DIR=str(place / "cache"), TMPDIR=str(place / "temporary"))
    environment = os.environ | places | dict(TFR_JIT="async", TFR_CC=str(compiler))
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, 1), done.stderr
    pid = int((place / "pid").read_text())
    check_ends(pid)
    assert list((place / "temporary").iterdir()) == []
