"""The samples: what is checked in is what the program writes, and both sides compute the same bits.

The README's diff is held against the program too.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import transformers
from conftest import ROOT

SAMPLES = ROOT / "samples"
CUSTOM = SAMPLES / "custom_op"
RULES = CUSTOM / "rules"
# Class -> ops, so that equality with nothing fused fails.
FUSED = {
    "qwen3": {
        ("RMSNorm", "rms_norm"),
        ("MLP", "linears"),
        ("MLP", "act_mul"),
        ("Attention", "linears"),
        ("Attention", "qk_norm_rope"),
        ("DecoderLayer", "add_rms_norm"),
    },
    "gemma2": {
        ("RMSNorm", "rms_norm"),
        ("MLP", "linears"),
        ("MLP", "act_mul"),
        ("Attention", "linears"),
        ("Attention", "rope"),
        ("Attention", "softcap"),
        ("DecoderLayer", "add_rms_norm"),
        ("Model", "softcap"),
    },
    "phi3": {
        ("RMSNorm", "rms_norm"),
        ("MLP", "act_mul"),
        ("Attention", "rope"),
        ("DecoderLayer", "add_rms_norm"),
    },
}


def load(name: str, text: str, filename: str) -> ModuleType:
    """A module of that text. The ops ask for the file that a helper comes from, so it has one."""
    module = ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module  # dataclasses look their module up
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


def command(binary, *words, cwd=ROOT):
    return subprocess.run([binary, *map(str, words)], cwd=cwd, capture_output=True, text=True)


# ------------------------------------------------------------------ before and after
@pytest.mark.parametrize("family", FUSED)
def test_after_is_what_the_program_writes(family, binary, tmp_path):
    done = command(binary, "-o", tmp_path / "after", SAMPLES / family / "before")
    assert done.returncode == 0, done.stderr
    written = {p.name: p.read_text() for p in (tmp_path / "after").iterdir()}
    kept = {p.name: p.read_text() for p in (SAMPLES / family / "after").glob("*.py")}
    assert written == kept, f"run: tfrewrite -o samples/{family}/after samples/{family}/before"


@pytest.mark.parametrize("family", FUSED)
def test_fused_as_listed(family, binary):
    import tfrewrite

    result = tfrewrite.rewrite(SAMPLES / family / "before" / f"modeling_{family}.py")
    assert {(f["class"], f["op"]) for f in result.fused} == FUSED[family]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("family", FUSED)
def test_both_sides_compute_the_same_bits(family, dtype):
    """Logits of a training forward (dropout draws too) and the gradient of every parameter."""
    from tfrewrite import ops

    results = []
    for side in ("before", "after"):
        path = SAMPLES / family / side / f"modeling_{family}.py"
        module = load(f"sample_{family}_{side}", path.read_text(), str(path))
        torch.manual_seed(0)
        model = module.Model(module.Config()).to(dtype)
        for parameter in model.parameters():  # norms of weight 1 would hide a lost weight
            torch.nn.init.normal_(parameter, std=0.2)
        with ops.record() as paths:
            logits = model(torch.arange(22).view(2, 11) * 7 % 256)
        logits.float().square().mean().backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        results.append({"logits": logits.detach(), **gradients})
    before, after = results
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert value.isfinite().all() and value.any(), name
        assert torch.equal(value, after[name]), name
    assert {op for op, _, _ in paths} == {op for _, op in FUSED[family]}
    assert {path for _, _, path in paths} == {"reference"}


def test_readme_names_every_sample():
    listed = set(re.findall(r"^\| `([\w.]+)/?` \|", (SAMPLES / "README.md").read_text(), re.M))
    there = {p.name for p in SAMPLES.iterdir() if p.name not in ("README.md", "__pycache__")}
    assert listed == there


def test_readme_shows_the_diff_of_qwen3(binary):
    """Every changed line, and no other."""
    spec = importlib.util.find_spec("transformers")
    path = Path(spec.origin).parent / "models" / "qwen3" / "modeling_qwen3.py"
    diff = command(binary, "-d", path).stdout
    shown = re.search(r"```diff\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    assert changed_lines(shown) == changed_lines(diff) != []


def changed_lines(diff: str) -> list[str]:
    return [s for s in diff.splitlines() if s[:1] in "+-" and s[:3] not in ("+++", "---") and s]


# ------------------------------------------------------------------ an op of one's own
@pytest.fixture
def squash():
    """The rule file's module, its op known to `tfrewrite.ops`."""
    from tfrewrite import ops, rules

    assert rules.add(RULES) == ["squash"]
    assert "squash" in ops.names()
    return importlib.import_module("tfrewrite.rules.squash")


def test_custom_op_rewrites_its_model(binary, squash, tmp_path):
    """Through the command line: two calls, the rest unchanged, and a second run changes nothing."""
    out = tmp_path / "model.py"
    done = command(binary, "--rules", RULES, CUSTOM / "model.py", "-o", out)
    assert done.returncode == 0, done.stderr
    text = out.read_text()
    assert "scores = tfr.squash(scores, self.slope)\n" in text
    assert 'return tfr.squash(logits, 0.1, cast="float32")\n' in text
    assert "tanh" not in text and "# Large scores saturate" in text
    assert command(binary, "--rules", RULES, "--check", out).returncode == 0
    plain = command(binary, "--check", CUSTOM / "model.py")
    assert plain.returncode == 0 and "NOTHING WAS FUSED" in plain.stderr


def test_custom_op_ran_and_is_equal(binary, squash):
    import tfrewrite
    from tfrewrite import ops

    path = CUSTOM / "model.py"
    result = tfrewrite.rewrite(path, rules=RULES)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        outputs = []
        for name, text in (("squash_before", path.read_text()), ("squash_after", result.text)):
            torch.manual_seed(0)
            model = load(name, text, f"{name}.py").Model().to(dtype)
            with ops.record() as paths:
                logits = model(torch.arange(48).view(2, 24) % 64)
            logits.sum().backward()
            outputs.append([logits, *(p.grad for p in model.parameters())])
        assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True)), dtype
        assert paths == {
            ("squash", "in_its_dtype", "reference"): 1,
            ("squash", "in_float32", "reference"): 1,
        }


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"TFR_JIT": "sync"}, "jit"),
        ({"TFR_JIT": "off"}, "reference"),
        ({"TFR_CC": "/nowhere/cc"}, "reference"),
        ({"TFR_OPS": "ref"}, "reference"),
    ],
    ids=["kernel", "jit off", "no compiler", "reference"],
)
def test_custom_op_script(binary, environment, path, tmp_path):
    """The op's own kernel runs where it can, and the reference where it cannot."""
    environment = {**os.environ, "TFR_CACHE_DIR": str(tmp_path), **environment}
    done = subprocess.run(
        [sys.executable, CUSTOM / "compare.py"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for dtype, expected in (("float32", path), ("bfloat16", path), ("float16", "reference")):
        assert f"{dtype}: {expected}: off by " in done.stdout


def test_custom_op_with_a_faulty_kernel(binary, tmp_path):
    """A template that does not compile: one warning with the compiler's place, and the reference."""
    folder = tmp_path / "custom_op"
    shutil.copytree(CUSTOM, folder, ignore=shutil.ignore_patterns("__pycache__"))
    template = folder / "rules" / "squash.c"
    template.write_text(template.read_text().replace("tfr_tanh(", "tfr_tanhh(", 1))
    environment = {**os.environ, "TFR_CACHE_DIR": str(tmp_path / "cache"), "TFR_JIT": "sync"}
    done = subprocess.run(
        [sys.executable, folder / "compare.py"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "float32: reference: off by 0.0e+00" in done.stdout
    assert done.stderr.count("KernelWarning") == 1 and "squash.c:27" in done.stderr


# ------------------------------------------------------------------ the C interface
CONFIG = """{"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
"num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-6,
"vocab_size": 128, "num_hidden_layers": 2, "attention_bias": false}"""


def c_api(binary, *arguments, **environment):
    program = Path(binary).parent / "c_api"
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_c_program(binary, tmp_path):
    """Rewrites as the command does, compiles what the model needs, and runs a kernel."""
    source = Path(transformers.__file__).parent / "models/qwen3/modeling_qwen3.py"
    (tmp_path / "config.json").write_text(CONFIG)
    done = c_api(binary, source, tmp_path / "config.json", TFR_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == command(binary, "--quiet", "--target", "host", source).stdout
    for op in ("rms_norm.", "add_rms_norm.", "qk_norm_rope.", "act_mul.", "linears."):
        assert f"\n  {op}" in done.stderr, op
    assert "the mean square of a normalised row is 1.00000" in done.stderr
    assert "at run time" not in done.stderr


@pytest.mark.parametrize(
    ("text", "config", "environment", "message"),
    [
        ("def f(:\n", CONFIG, {}, "x.py:1:"),
        ("x = 1\n", '{"hidden_size": }', {}, "config.json:1:"),
        (None, CONFIG, {"TFR_CC": "/nowhere/cc"}, "there is no C compiler"),
    ],
    ids=["source", "config", "compiler"],
)
def test_c_program_says_what_is_wrong(binary, tmp_path, text, config, environment, message):
    source = Path(transformers.__file__).parent / "models/qwen3/modeling_qwen3.py"
    (tmp_path / "x.py").write_text(source.read_text() if text is None else text)
    (tmp_path / "config.json").write_text(config)
    files = (tmp_path / "x.py", tmp_path / "config.json")
    done = c_api(binary, *files, TFR_CACHE_DIR=str(tmp_path / "cache"), **environment)
    assert done.returncode == 3 and done.stdout == ""
    assert message in done.stderr


HOOKED = """
import sys
import tfrewrite
tfrewrite.enable(rules={rules!r}, only="squash")
from transformers.models.demo import modeling_demo
import torch
x = torch.randn(3, 5)
from tfrewrite import ops
with ops.record() as paths:
    y = modeling_demo.Head()(x)
assert torch.equal(y, torch.tanh(0.2 * x))
print(dict(paths))
"""


def test_custom_op_through_the_hook(binary, package, tmp_path):
    """enable(rules=...) rewrites what is imported and makes the op known, in a fresh process."""
    (package / "modeling_demo.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Head(nn.Module):\n"
        "    def forward(self, x):\n        return torch.tanh(x * 0.2)\n"
    )
    site = str(package.parents[2])
    done = subprocess.run(
        [sys.executable, "-c", HOOKED.format(rules=str(RULES))],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([site, os.environ["PYTHONPATH"]]),
            "TFR_OPS": "ref",  # the kernel's tanh need not have the same bits
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{('squash', 'in_its_dtype', 'reference'): 1}"


def test_custom_op_is_unknown_without_its_rules(binary, tmp_path):
    code = "from tfrewrite import ops\nops.squash"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "no op 'squash'" in done.stderr and "TFR_RULES" in done.stderr
    known = {**os.environ, "TFR_RULES": str(RULES)}
    assert subprocess.run([sys.executable, "-c", code], env=known).returncode == 0


def rewritten(binary, text, tmp_path):
    import tfrewrite

    path = tmp_path / "example.py"
    path.write_text("import torch\nfrom torch import nn\n" + text)
    return tfrewrite.rewrite(path, rules=RULES, only="squash")


def test_custom_op_examples(binary, squash, tmp_path):
    calls = {"in_its_dtype": r"tfr\.squash\(\w+, [\w.]+\)", "in_float32": "cast=.float32."}
    assert set(squash.ACCEPT) == set(calls)
    for variant, texts in squash.ACCEPT.items():
        for text in texts:
            result = rewritten(binary, text, tmp_path)
            assert result.changed and re.search(calls[variant], result.text), result.text
    for text in squash.REJECT:
        result = rewritten(binary, text, tmp_path)
        assert not result.changed, text
    assert "used elsewhere" in result.refused[0]["reason"]


# ------------------------------------------------------------------ a rule file with a fault
FAULTS = {
    # change of the rule file -> the place, and what is said there
    "annotation": (("slope: Scalar", "slope: Number"), "18:36", "unknown annotation"),
    "call": (("squash(x, slope)", "squash(x, gain)"), "17:6", "not a parameter of the function"),
    "effect": (
        ("torch.tanh(x * slope)", "tanh(x * slope)"),
        "19:12",
        "may call only what canon.py",
    ),
    "syntax": (("squashed(x, slope):", "squashed(x, slope:"), "13:13", "never closed"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_fault_in_a_rule_file(kind, binary, tmp_path):
    """Exit status 2, file:line:col, and neither the source nor the output is touched."""
    (old, new), place, message = FAULTS[kind]
    folder = tmp_path / "rules"
    shutil.copytree(RULES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "squash.py").read_text()
    assert old in text
    (folder / "squash.py").write_text(text.replace(old, new, 1))
    source, out = tmp_path / "model.py", tmp_path / "out.py"
    shutil.copy(CUSTOM / "model.py", source)
    for where in (["-w"], ["-o", out]):
        done = command(binary, "--rules", folder, *where, source)
        assert done.returncode == 2, done
        assert re.search(rf"squash\.py:{place}: .*{message}", done.stderr), done.stderr
        assert done.stdout == "" and not out.exists()
        assert source.read_text() == (CUSTOM / "model.py").read_text()
