"""Hub code (trust_remote_code) through the hook, with the stand-in program."""

import json
import sys
import textwrap

import pytest
import transformers.modeling_utils  # noqa: F401  (once, for the children that may have it)
from child import Child

AUTO_MAP = {"AutoConfig": "configuration_demo.DemoConfig", "AutoModel": "modeling_demo.DemoModel"}
VALUES = {"model_type": "demo", "hidden_size": 8, "vocab_size": 16, "num_hidden_layers": 2}

START = """
import sys, os, warnings, inspect
warnings.simplefilter("always")
import torch, tfrewrite
from tfrewrite import hook

def load(code):
    from transformers import AutoConfig, AutoModel
    config = AutoConfig.from_pretrained(code, trust_remote_code=True)
    torch.manual_seed(0)
    return AutoModel.from_config(config, trust_remote_code=True).eval()

def module(model):
    return sys.modules[type(model).__module__]

def fused(model):
    return "tfr" in vars(module(model))

def run(model):
    with torch.no_grad():
        return model(torch.arange(6).view(1, 6))["last_hidden_state"]
"""


@pytest.fixture
def script(hub_code, standin, tmp_path):
    (hub_code.parent / "config.json").write_text(json.dumps({**VALUES, "auto_map": AUTO_MAP}))

    def go(text, without=("tfrewrite", "transformers"), **environment):
        head = f"{START}\nCODE = {str(hub_code.parent)!r}\nTMP = {str(tmp_path)!r}\n"
        environment["HF_MODULES_CACHE"] = str(tmp_path / "modules")
        done = Child(head + textwrap.dedent(text), tmp_path, without=without, **environment).wait()
        assert done.returncode == 0, done.stderr
        return done

    return go


def test_hub_code_is_rewritten(script):
    script("""
        tfrewrite.enable()
        model = load(CODE)
        assert fused(model), hook.results
        with tfrewrite.ops.record() as calls:
            run(model)
        assert calls[("demo_mul", "two_inputs", "reference")] == 2
        m = module(model)
        runs = type(model.layers[0]).forward.__code__.co_filename
        assert runs.startswith(os.environ["TFR_CACHE_DIR"]) and runs.endswith("/modeling_demo.py")
        assert m.__file__.startswith(os.environ["HF_MODULES_CACHE"])
        assert "tfr.demo_mul" in inspect.getsource(type(model.layers[0]))
        assert "DemoMLP x2: demo_linears, demo_mul" in str(tfrewrite.report(model))
    """)


def test_transformers_imported_before(script):
    script(
        """
        import transformers.dynamic_module_utils as d
        d.HF_MODULES_CACHE = os.environ["HF_MODULES_CACHE"]
        tfrewrite.enable()
        assert fused(load(CODE)), hook.results
        """,
        without=("tfrewrite",),
    )


def test_what_is_saved_is_the_original(script, hub_code):
    script("""
        tfrewrite.enable()
        model = load(CODE)
        type(model).register_for_auto_class("AutoModel")
        model.save_pretrained(TMP + "/saved")
        from transformers import AutoModel
        again = AutoModel.from_pretrained(TMP + "/saved", trust_remote_code=True).eval()
        assert fused(again) and torch.equal(run(again), run(model))
    """)
    saved = hub_code.parents[1] / "saved"
    for name in ("modeling_demo.py", "configuration_demo.py"):
        assert (saved / name).read_text() == (hub_code.parent / name).read_text()


def test_changed_code_is_rewritten_anew(script):
    """Transformers runs a changed file again in the module that is already there."""
    script("""
        from transformers.dynamic_module_utils import get_class_in_module
        tfrewrite.enable()
        m = module(load(CODE))
        path = m.__file__
        tail = os.path.relpath(path, os.environ["HF_MODULES_CACHE"])
        text = open(path).read()
        open(path, "w").write(text.replace("x = x + layer(x)", "x = x - layer(x)"))
        changed = get_class_in_module("DemoModel", tail)
        assert sys.modules[m.__name__] is m and m.DemoModel is changed and "tfr" in vars(m)
        assert "x = x - layer(x)" in open(changed.forward.__code__.co_filename).read()
        assert "x = x - layer(x)" in inspect.getsource(changed)
        assert "tfr.demo_mul" in inspect.getsource(m.DemoMLP)
    """)


@pytest.mark.parametrize("name", ["modeling_parts", "layers"])
def test_modules_that_hub_code_imports(script, hub_code, name):
    """They come through sys.meta_path, not through the Hub loader, and may have any name."""
    text = hub_code.read_text()
    a, b = text.index("class DemoMLP"), text.index("class DemoPreTrainedModel")
    (hub_code.parent / f"{name}.py").write_text(
        "import torch\nfrom torch import nn\n\n\n" + text[a:b]
    )
    hub_code.write_text(text[:a] + f"from .{name} import DemoMLP\n\n\n" + text[b:])
    script(
        """
        tfrewrite.enable()
        model = load(CODE)
        part = type(model.layers[0])
        assert part.__module__.endswith(".NAME")
        assert "tfr" in vars(sys.modules[part.__module__])
        assert set(hook.results) >= {part.__module__, type(model).__module__}
        assert not any("configuration" in name for name in hook.results), hook.results
        run(model)
    """.replace("NAME", name)
    )


def test_same_result_as_without_the_hook(script):
    text = """
        import importlib
        from transformers import dynamic_module_utils
        tfrewrite.enable()
        if not ON:
            tfrewrite.disable()
            assert dynamic_module_utils.importlib is importlib
        model = load(CODE)
        assert fused(model) == ON
        print(run(model).tolist())
    """
    results = [script(text.replace("ON", on)).stdout for on in ("False", "True")]
    assert results[0] == results[1] != ""


def test_refused_hub_code_runs(script):
    done = script(
        "tfrewrite.enable(); model = load(CODE); run(model); assert not fused(model)",
        STANDIN="refuse",
    )
    assert "modeling_demo.py:3:7: brackets too deep" in done.stderr


def test_unknown_hub_loader_is_said(script):
    done = script("""
        import types
        tfrewrite.enable()
        fake = types.ModuleType("transformers.dynamic_module_utils")
        fake.get_class_in_module = lambda name, path: None
        hook._patch_hub_loader(fake)
    """)
    assert "Hub code runs as it is" in done.stderr


@pytest.mark.skipif(sys.version_info < (3, 13), reason="classes have no line numbers before 3.13")
def test_class_source_by_line(script):
    script("""
        tfrewrite.enable()
        part = type(load(CODE).layers[0])
        assert inspect.getsource(part).startswith("class DemoMLP")
    """)
