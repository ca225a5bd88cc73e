"""The import hook, on a small package laid out as Transformers is, with the stand-in program.

Each test is a script in a process of its own: what an import does cannot be undone in this one.
"""

import json
import textwrap

import pytest
from child import Child
from demo_code import DEMO

START = """
import sys, os, warnings, json, pickle, inspect, linecache, traceback
warnings.simplefilter("always")
import torch, tfrewrite
from tfrewrite import hook
NAME = "transformers.models.demo.modeling_demo"
def enable(**options):
    tfrewrite.enable(**options)
    import transformers.models.demo.modeling_demo as m
    return m
def fused(m):
    return "tfr" in vars(m)
def run(m):
    torch.manual_seed(0)
    mlp, x = m.DemoMLP(), torch.randn(2, 4)
    assert torch.equal(mlp(x), mlp.act_fn(mlp.gate_proj(x)) * mlp.up_proj(x))
    return mlp
"""


@pytest.fixture
def script(package, standin, tmp_path):
    """script(text): runs it; gives what it printed on standard output and standard error."""

    def run(text, check=True, **environment):
        text = START + textwrap.dedent(text)
        done = Child(text, tmp_path, [package.parents[2]], **environment).wait()
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


def test_module_is_rewritten(script):
    script("""
        m = enable()
        assert fused(m)
        with tfrewrite.ops.record() as calls:
            run(m)
        assert calls[("demo_mul", "two_inputs", "reference")] == 1
        q = torch.randn(1, 2, 3, 4); c = torch.randn(1, 3, 4)
        with tfrewrite.ops.record() as calls:
            m.rotate(q, q, c, c)
        assert calls == {("demo_rope", "half", "reference"): 1}
        m.apply_rotary = lambda q, k, cos, sin: "replaced"
        assert m.rotate(q, q, c, c) == "replaced"
        assert hook.results[NAME].status == "rewritten"
    """)


def test_what_runs_is_what_is_shown(script, package):
    script(f"""
        m = enable()
        original = {str(package / "modeling_demo.py")!r}
        runs = m.DemoMLP.forward.__code__.co_filename
        assert runs == hook.results[NAME].path != original
        assert runs.endswith("/transformers/models/demo/modeling_demo.py")
        text = open(runs).read()
        assert "tfr.demo_mul" in text
        assert m.__file__ == m.__spec__.origin == original
        assert "tfr.demo_mul" in inspect.getsource(m.DemoMLP.forward)
        assert "tfr.demo_mul" in inspect.getsource(m.DemoMLP)
        assert inspect.getsource(m) == text == m.__loader__.get_source(NAME)
        assert inspect.getsourcefile(m.DemoMLP).split(os.sep)[-3:-1] == ["models", "demo"]
        assert inspect.getmodule(m.DemoMLP.forward) is m
        try:
            m.DemoOdd()(1)
        except ValueError:
            shown = traceback.format_exc()
        assert runs in shown and 'raise ValueError("odd")' in shown
        linecache.checkcache()
        assert "tfr.demo_mul" in inspect.getsource(m.DemoMLP)
    """)


def test_module_is_a_module_as_before(script):
    script("""
        import importlib, importlib.resources
        m = enable()
        assert m.__name__ == NAME and m.__package__ == "transformers.models.demo"
        assert m.__spec__.name == NAME and m.__spec__.loader is m.__loader__
        assert pickle.loads(pickle.dumps(m.DemoMLP)) is m.DemoMLP
        mlp = pickle.loads(pickle.dumps(run(m)))
        assert type(mlp) is m.DemoMLP
        assert importlib.resources.files(m.__package__).joinpath("configuration_demo.py").is_file()
        before = m.DemoMLP
        assert importlib.reload(m) is m and m.DemoMLP is not before and fused(m)
        assert importlib.util.find_spec(NAME).origin == m.__file__
    """)


def test_second_process_reads_the_cache(script, tmp_path):
    log = str(tmp_path / "log")
    for _ in range(2):
        script("m = enable(); assert fused(m); run(m)", STANDIN_LOG=log)
    assert len(open(log).readlines()) == 1


def test_key_is_over_everything_that_matters(script, tmp_path, package, standin):
    log = str(tmp_path / "log")

    def runs(**env):
        script("m = enable(only=json.loads(os.environ.get('ONLY', '[]')))", STANDIN_LOG=log, **env)
        return len(open(log).readlines())

    assert runs() == 1
    assert runs(ONLY='["demo_mul"]') == 2
    (package / "modeling_demo.py").write_text(DEMO + "# another source\n")
    assert runs() == 3
    other = tmp_path / "program.py"
    other.write_text(standin.read_text() + "# another program\n")
    other.chmod(0o755)
    assert runs(TFR_BIN=str(other)) == 4
    assert runs(TFR_BIN=str(other)) == 4


def test_options_reach_the_program(script, tmp_path):
    log, rules = tmp_path / "log", tmp_path / "rules"
    rules.mkdir()
    script(
        f"enable(rules={str(rules)!r}, only='demo_mul, demo_rope', skip=['demo_linears'],"
        " target='host')",
        STANDIN_LOG=str(log),
    )
    words = log.read_text().split()
    assert words[: words.index("-o")] == [
        *["--json", "--rules", str(rules), "--only", "demo_mul,demo_rope"],
        *["--skip", "demo_linears", "--target", "host"],
    ]


# ------------------------------------------------------------------ on, off, too late
def test_dry_run(script):
    script("""
        m = enable(dry_run=True)
        assert not fused(m)
        result = hook.results[NAME]
        assert result.status == "dry run" and result.fused[0]["op"] == "demo_mul"
        run(m)
    """)


def test_disable(script):
    script("""
        tfrewrite.enable()
        tfrewrite.disable()
        import transformers.models.demo.modeling_demo as m
        assert not fused(m) and not any(isinstance(f, hook.Finder) for f in sys.meta_path)
        tfrewrite.disable()
    """)


def test_disabled_by_environment(script):
    done = script("m = enable(); assert not fused(m) and not hook.enabled()", TFR_DISABLE="1")
    assert "tfrewrite" not in done.stderr


def test_enable_twice_has_one_finder(script):
    script("""
        tfrewrite.enable(); m = enable()
        assert fused(m) and sum(isinstance(f, hook.Finder) for f in sys.meta_path) == 1
    """)


def test_too_late_is_said_loudly(script):
    done = script("""
        import transformers.models.demo.modeling_demo as m
        enable()
        assert not fused(m)
        assert hook.results[NAME].reason == "imported before tfrewrite.enable()"
    """)
    assert "came too late for transformers.models.demo.modeling_demo" in done.stderr


def test_too_late_after_a_dry_run(script):
    done = script("enable(dry_run=True); tfrewrite.enable()")
    assert "came too late for transformers.models.demo.modeling_demo" in done.stderr


def test_other_modules_are_left_alone():
    from tfrewrite.hook import wanted

    assert wanted("transformers.models.qwen3.modeling_qwen3")
    assert wanted("transformers.models.deprecated.mega.modeling_mega")
    assert wanted("transformers_modules.name.hash.modeling_x")
    for name in (
        "transformers.modeling_utils",
        "transformers.models.auto.modeling_auto",
        "transformers.models.bert.modeling_tf_bert",
        "transformers.models.bert.modeling_flax_bert",
        "transformers.models.qwen3.configuration_qwen3",
        "mine.modeling_x",
        "modeling_x",
    ):
        assert not wanted(name), name


def test_foreign_loader_keeps_its_module(script, tmp_path):
    done = script("""
        import importlib.machinery, importlib.util
        class Other(importlib.machinery.SourceFileLoader): pass
        class OtherFinder:
            @staticmethod
            def find_spec(name, path, target=None):
                if name == NAME:
                    file = path[0] + "/modeling_demo.py"
                    loader = Other(name, file)
                    return importlib.util.spec_from_file_location(name, file, loader=loader)
        sys.meta_path.insert(0, OtherFinder)
        m = enable()
        assert type(m.__loader__) is Other and not fused(m)
    """)
    assert "is loaded by __main__.Other, and runs as it is" in done.stderr


# ------------------------------------------------------------------ faults
@pytest.mark.parametrize(
    "fault,status,said",
    [
        ("crash", "failed", "died of signal 11"),
        ("refuse", "refused", "modeling_demo.py:3:7: brackets too deep"),
        ("usage", "failed", "exit status 2: tfrewrite: no op called x"),
        ("bad python", "failed", "Python does not accept the rewritten source"),
        ("no report", "failed", "no usable report"),
        ("unknown op", "failed", "writes ops that this package lacks: demo_from_the_future"),
        ("hang", "failed", "did not finish within 0.2 s"),
    ],
)
def test_fault_of_the_program(script, fault, status, said):
    done = script(
        f"""
        from tfrewrite import program
        if {fault!r} == "hang": program.TIMEOUT = 0.2
        m = enable()
        assert not fused(m)
        run(m)
        assert hook.results[NAME].status == {status!r}, hook.results
        assert {said!r} in hook.results[NAME].reason, hook.results
        """,
        STANDIN=fault,
    )
    assert said in done.stderr
    assert done.stderr.count("TfrewriteWarning: ") == 1


@pytest.mark.parametrize("path", ["/nowhere/tfrewrite", "", "/"])
def test_missing_program(script, path):
    done = script("m = enable(); assert not fused(m); run(m)", TFR_BIN=path, PATH="/nowhere")
    assert done.stderr.count("TfrewriteWarning: ") == 1
    assert "modules run as they are" in done.stderr


def test_warnings_that_are_errors(script):
    done = script(
        "warnings.simplefilter('error'); m = enable(); assert not fused(m)", STANDIN="crash"
    )
    assert "died of signal 11" in done.stderr


def test_fault_in_a_rule_file(script, tmp_path):
    rules = tmp_path / "faulty"
    rules.mkdir()
    (rules / "faulty.py").write_text("1 / 0\n")
    done = script("m = enable(); assert not fused(m); run(m)", TFR_RULES=str(rules))
    assert "faulty.py: ZeroDivisionError" in done.stderr


def test_syntax_error_of_the_module_is_its_own(script, package):
    (package / "modeling_demo.py").write_text("def (:\n")
    done = script("enable()", check=False, STANDIN="refuse")
    assert done.returncode == 1 and "SyntaxError" in done.stderr.splitlines()[-1]


# ------------------------------------------------------------------ the cache
def entry(tmp_path):
    (found,) = (p for p in (tmp_path / "cache" / "src").iterdir() if not p.name.startswith("."))
    return found


@pytest.mark.parametrize("damage", ["text", "short", "meta", "no text", "no meta", "other key"])
def test_damaged_entry_is_made_anew(script, tmp_path, damage):
    script("enable()")
    found = entry(tmp_path)
    source = next(found.rglob("modeling_demo.py"))
    if damage == "text":
        source.write_text(source.read_text() + "raise SystemExit(9)\n")
    elif damage == "short":
        source.write_bytes(source.read_bytes()[:100])
    elif damage == "meta":
        (found / "entry.json").write_text("{")
    elif damage == "no text":
        source.unlink()
    elif damage == "no meta":
        (found / "entry.json").unlink()
    else:
        meta = json.loads((found / "entry.json").read_text())
        (found / "entry.json").write_text(json.dumps({**meta, "key": "0" * 40}))
    done = script("m = enable(); assert fused(m); run(m)")
    assert "it was put aside and is made anew" in done.stderr
    assert script("m = enable(); assert fused(m)").stderr == ""


def test_damaged_bytecode(script, tmp_path):
    script("enable()")
    (code,) = entry(tmp_path).rglob("modeling_demo.*.pyc")
    data = code.read_bytes()
    code.write_bytes(data[: len(data) // 2])
    script("m = enable(); assert fused(m); run(m)")


def test_bytecode_of_the_original_is_untouched(script, package):
    script("enable()")
    assert not list(package.rglob("modeling_demo.*.pyc"))


@pytest.mark.parametrize("kind", ["file", "group", "foreign", "read-only", "no home"])
def test_unusable_cache(script, tmp_path, kind, package):
    folder, env = tmp_path / "cache", {}
    said = "rewritten modules are kept in memory"
    if kind == "file":
        folder.write_text("")
    elif kind == "group":
        folder.mkdir()
        folder.chmod(0o770)
    elif kind == "foreign":
        folder = tmp_path.__class__("/proc")
    elif kind == "read-only":
        folder = tmp_path.__class__("/proc/self")
    else:
        env = {"TFR_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "nothing"}
    env = env or {"TFR_CACHE_DIR": str(folder)}
    done = script(
        f"""
        m = enable()
        assert fused(m)
        run(m)
        original = {str(package / "modeling_demo.py")!r}
        assert m.__file__ == m.DemoMLP.forward.__code__.co_filename == original
        assert "tfr.demo_mul" in inspect.getsource(m.DemoMLP.forward)
        try:
            m.DemoOdd()(1)
        except ValueError:
            assert 'raise ValueError("odd")' in traceback.format_exc()
        """,
        **env,
    )
    assert said in done.stderr


def test_link_in_the_cache_is_refused(script, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "src").symlink_to(tmp_path / "elsewhere")
    done = script("m = enable(); assert fused(m)")
    assert "not a directory" in done.stderr and not list((tmp_path / "elsewhere").iterdir())


def test_eight_processes_at_once(standin, tmp_path, package):
    text = START + "m = enable(); assert fused(m); run(m)"
    children = [Child(text, tmp_path, [package.parents[2]]) for _ in range(8)]
    assert [child.wait().stderr for child in children] == [""] * 8
    assert [child.returncode for child in children] == [0] * 8
    assert len(list((tmp_path / "cache" / "src").iterdir())) == 1, "one entry, nothing left over"


def test_threads_import_one_module(script):
    script("""
        import threading
        tfrewrite.enable()
        seen = []
        def go():
            import transformers.models.demo.modeling_demo as m
            seen.append(m)
        threads = [threading.Thread(target=go) for _ in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert len(set(map(id, seen))) == 1 and len(seen) == 8 and fused(seen[0])
    """)


# ------------------------------------------------------------------ reports
def test_report(script):
    done = script("""
        m = enable()
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.odd = m.DemoMLP(), m.DemoMLP(), m.DemoOdd()
        model = Model()
        r = tfrewrite.report(model)
        assert r.fused == 3, r
        assert "DemoMLP x2: demo_linears, demo_mul" in str(r), r
        assert "modeling_demo.rotate(): demo_rope" in str(r), r
        assert "DemoOdd.forward line 1: demo_mul: branch" in str(r), r
        assert not r.conditions
        assert "DemoMLP x2: gate_proj, up_proj: not packed" in str(r), r
        assert len(tfrewrite.prepare(model, pack=True).packed) == 2
        assert "DemoMLP x2: gate_proj, up_proj: already packed" in str(tfrewrite.report(model))
        with tfrewrite.ops.record() as calls:
            model.a(torch.randn(2, 4))
        r = tfrewrite.report(model, calls)
        assert "ran: demo_mul/two_inputs 1 times (reference)" in str(r), r

        model.a.gate_proj.register_forward_hook(lambda *a: None)
        model.b.up_proj.forward = model.b.up_proj.forward
        torch.nn.utils.parametrizations.weight_norm(model.b.gate_proj)
        class Mine(torch.nn.Linear): pass
        model.a.up_proj = Mine(4, 4)
        r = tfrewrite.report(model)
        assert r.conditions == {
            "a forward hook": ["a.gate_proj"],
            "its forward was replaced on the instance": ["b.up_proj"],
            "a parametrization": ["b.gate_proj"],
            "it is a __main__.Mine": ["a.up_proj"],
        }, r.conditions

        m.DemoMLP.forward = lambda self, x: x
        r = tfrewrite.report(model)
        assert "DemoMLP.forward was replaced: its ops do not run" in str(r), r
        assert r.fused == 1
    """)
    assert "nothing is fused" not in done.stderr


def test_report_of_a_hand_rewritten_module(script, package):
    """A rewritten file that was committed, with no hook."""
    text = DEMO.replace(
        "from torch import nn", "from torch import nn\nfrom tfrewrite import ops as tfr"
    )
    text = text.replace(
        "self.act_fn(self.gate_proj(x)) *", "tfr.demo_mul(self.act_fn, self.gate_proj(x),"
    )
    (package / "modeling_demo.py").write_text(text.replace("self.up_proj(x)", "self.up_proj(x))"))
    script("""
        import transformers.models.demo.modeling_demo as m
        assert "DemoMLP x1: demo_mul" in str(tfrewrite.report(run(m)))
    """)


@pytest.mark.parametrize(
    "text,reason",
    [
        (
            "import transformers.models.demo.modeling_demo as m",
            "imported without tfrewrite.enable()",
        ),
        ("m = enable(dry_run=True)", "dry run"),
        (
            "import transformers.models.demo.modeling_demo as m; enable()",
            "imported before tfrewrite.enable()",
        ),
    ],
)
def test_report_of_nothing_is_loud(script, text, reason):
    done = script(f"{text}\nprint(tfrewrite.report(m.DemoMLP()))")
    assert "nothing is fused in DemoMLP" in done.stderr and reason in done.stderr
    assert "NOTHING is fused in DemoMLP" in done.stdout and reason in done.stdout
