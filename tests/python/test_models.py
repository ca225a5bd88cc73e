"""A rewritten Qwen3 beside the original: what people do to a model gives the same result.

To the bit with references, within bounds with kernels.

The rewritten module is loaded by the hook's own loader, under another name than the original's.
"""

import copy
import importlib.util
import inspect
import os
import pickle
import sys

import modes
import pytest
import torch
from child import Child
from torch import nn

HOME = "transformers.models.qwen3"


@pytest.fixture(
    scope="module",
    autouse=True,
    params=[modes.parameter(m) for m in (modes.REFERENCES, modes.KERNELS)],
)
def mode(request):
    with modes.running(request.param):
        yield request.param


@pytest.fixture(scope="module")
def original():
    return importlib.import_module(f"{HOME}.modeling_qwen3")


def rewritten_module(suffix):
    """Transformers' Qwen3 as the hook rewrites it, under a name of its own."""
    from tfrewrite import hook, program

    original = importlib.import_module(f"{HOME}.modeling_qwen3")
    name = f"{HOME}.modeling_qwen3__{suffix}"
    spec = importlib.util.spec_from_file_location(name, original.__file__)
    hook.Finder(program.Options(), False).adopt(spec)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    assert hook.results[name].status == "rewritten", hook.results[name].reason
    return module


@pytest.fixture(scope="module")
def rewritten(binary):
    return rewritten_module("hooked")


@pytest.fixture(autouse=True)
def fresh(original, rewritten):
    """Undoes what a test has put into either module."""
    kept = [(m, dict(vars(m))) for m in (original, rewritten)]
    norms = [(m.Qwen3RMSNorm, m.Qwen3RMSNorm.forward) for m in (original, rewritten)]
    yield
    for module, names in kept:
        vars(module).update(names)
    for cls, forward in norms:
        cls.forward = forward
    torch._dynamo.reset()


VALUES = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=64,
    pad_token_id=0,
    eos_token_id=None,
    bos_token_id=None,
)


def config(**more):
    from transformers import Qwen3Config

    return Qwen3Config(**VALUES | more)


def build(module, **more):
    torch.manual_seed(0)
    model = module.Qwen3ForCausalLM(config(**more)).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(1 + 0.3 * noise if p.dim() < 2 else noise / p.shape[-1] ** 0.5)
    return model


@pytest.fixture
def pair(original, rewritten):
    return build(original), build(rewritten)


@pytest.fixture
def batch():
    ids = torch.randint(1, 64, (2, 7), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    return {"input_ids": ids, "attention_mask": mask}


def logits(model, batch):
    with torch.no_grad():
        return model(**batch).logits


def close(a, b):
    bound = 1e-5 if a.dtype == torch.float32 else 2**-6
    return bool((a - b).abs().max() <= bound * a.abs().max())


def equal(a, b):
    """To the bit, unless kernels run."""
    return torch.equal(a, b) or (os.environ["TFR_OPS"] == "auto" and close(a, b))


def check(pair, batch, same=equal):
    """Both give the same, which is returned."""
    a, b = (logits(m, batch) for m in pair)
    assert same(a, b), f"largest difference {(a - b).abs().max()}"
    return a


# ------------------------------------------------------------------ what runs
def test_forward_and_the_ops_that_ran(pair, batch, mode):
    from tfrewrite import ops

    with ops.record() as calls:
        check(pair, batch)
    by_op = {}
    for (op, _variant, path), n in calls.items():
        assert path == (modes.kernel_path() if mode == modes.KERNELS else "reference"), op
        by_op[op] = by_op.get(op, 0) + n
    layers = 2
    norms = layers if mode == modes.KERNELS else 4 * layers  # a kernel has its norms within
    assert by_op == {
        "rms_norm": norms + 1,
        "linears": 2 * layers,
        "act_mul": layers,
        "qk_norm_rope": layers,
        "add_rms_norm": layers,
    }


def test_report(pair):
    import tfrewrite

    text = str(tfrewrite.report(pair[1]))
    for line in (
        "Qwen3RMSNorm x9: rms_norm",
        "Qwen3MLP x2: act_mul, linears",
        "Qwen3Attention x2: linears, qk_norm_rope",
        "Qwen3DecoderLayer x2: add_rms_norm",
    ):
        assert line in text, text


def test_outside_is_as_before(original, rewritten, pair):
    a, b = original.Qwen3ForCausalLM, rewritten.Qwen3ForCausalLM
    assert inspect.signature(a.forward) == inspect.signature(b.forward)
    assert a.forward.__doc__ == b.forward.__doc__ and a.__doc__ == b.__doc__
    assert original.__all__ == rewritten.__all__
    assert list(pair[0].state_dict()) == list(pair[1].state_dict())
    assert [n for n, _ in pair[0].named_modules()] == [n for n, _ in pair[1].named_modules()]
    assert isinstance(pair[1].model.norm, rewritten.Qwen3RMSNorm)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_all_outputs(original, rewritten, batch, attention):
    outs = []
    for module in (original, rewritten):
        model = build(module, attn_implementation=attention)
        with torch.no_grad():
            outs.append(
                model(**batch, output_hidden_states=True, output_attentions=attention == "eager")
            )
    for key, value in outs[0].items():
        other = outs[1][key]
        for x, y in zip(value, other, strict=True) if isinstance(value, tuple) else ():
            assert equal(x, y) and x.stride() == y.stride(), key
    assert len(outs[1].hidden_states) == 3
    assert (outs[1].attentions is not None) == (attention == "eager")


ENABLE = """
import tfrewrite
tfrewrite.enable()
import torch
from transformers import AutoModelForCausalLM, Qwen3Config
model = AutoModelForCausalLM.from_config(Qwen3Config(**VALUES)).eval()
with tfrewrite.ops.record() as calls, torch.no_grad():
    model.generate(torch.ones(1, 3, dtype=torch.long), max_new_tokens=2, do_sample=False)
report = tfrewrite.report(model, calls)
assert f"qk_norm_rope/norm_transpose_rope 4 times ({PATH})" in str(report), report
assert tfrewrite.hook.results["transformers.models.qwen3.modeling_qwen3"].status == "rewritten"
"""


def test_enable(binary, tmp_path, mode):
    path = modes.kernel_path() if mode == modes.KERNELS else "reference"
    text = f"VALUES, PATH = {VALUES!r}, {path!r}\n{ENABLE}"
    done = Child(text, tmp_path).wait()
    assert done.returncode == 0, done.stderr
    assert "TfrewriteWarning" not in done.stderr


# ------------------------------------------------------------------ modes
@pytest.mark.parametrize("checkpointing", [False, True])
def test_training_step(pair, batch, checkpointing):
    for model in pair:
        model.train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(**batch, labels=batch["input_ids"], use_cache=False).loss.backward()
    for (name, a), b in zip(pair[0].named_parameters(), pair[1].parameters(), strict=True):
        assert a.grad is not None and close(a.grad, b.grad), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(pair, batch, dtype):
    plain = logits(pair[0], batch)
    with torch.autocast("cpu", dtype):
        assert not torch.equal(check(pair, batch), plain)


def test_bfloat16(pair, batch):
    check([m.bfloat16() for m in pair], batch)


def test_inference_mode(pair, batch):
    with torch.inference_mode():
        a, b = (m(**batch).logits for m in pair)
    assert b.is_inference() and equal(a, b)


@pytest.mark.parametrize("cache", ["dynamic", "static", None])
def test_generate(pair, batch, cache):
    options = dict(max_new_tokens=5, do_sample=False, disable_compile=True)
    options |= dict(use_cache=False) if cache is None else dict(cache_implementation=cache)
    a, b = (m.generate(**batch, **options) for m in pair)
    assert a.shape == (2, 12) and torch.equal(a, b)


def test_compiled_forward(pair, batch):
    compiled = torch.compile(pair[1], fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert close(logits(pair[0], batch), compiled(**batch, use_cache=False).logits)


def test_compiled_training_step(pair, batch):
    arguments = dict(**batch, labels=batch["input_ids"], use_cache=False)
    pair[0](**arguments).loss.backward()
    torch.compile(pair[1], fullgraph=True, backend="aot_eager")(**arguments).loss.backward()
    for (name, a), b in zip(pair[0].named_parameters(), pair[1].parameters(), strict=True):
        assert close(a.grad, b.grad), name


# ------------------------------------------------------------------ things put into a model
def differs(pair, batch, change):
    """Makes the same change to both; it must show, and equally."""
    before = check(pair, batch)
    for model in pair:
        change(model)
    assert not torch.equal(check(pair, batch), before)


PARTS = ["q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "gate_proj", "up_proj", "act_fn"]
PARTS += ["post_attention_layernorm", "input_layernorm", "mlp", "self_attn"]


def part(model, name):
    layer = model.model.layers[1]
    for owner in (layer.self_attn, layer.mlp, layer):
        if hasattr(owner, name):
            return owner, getattr(owner, name)
    raise AttributeError(name)


@pytest.mark.parametrize("name", PARTS[:-1])
def test_forward_hook(pair, batch, name):
    differs(
        pair, batch, lambda m: part(m, name)[1].register_forward_hook(lambda _m, _x, y: y * 1.5)
    )


@pytest.mark.parametrize("name", PARTS[:-2])
def test_forward_pre_hook(pair, batch, name):
    def change(model):
        part(model, name)[1].register_forward_pre_hook(
            lambda _m, args: (args[0] * 2 + 1, *args[1:])
        )

    differs(pair, batch, change)


@pytest.mark.parametrize("name", ["q_proj", "q_norm", "up_proj", "post_attention_layernorm"])
def test_backward_hook(pair, batch, name):
    seen = {0: [], 1: []}
    for i, model in enumerate(pair):
        hooked = part(model, name)[1]
        hooked.register_full_backward_hook(lambda _m, _i, out, i=i: seen[i].append(out[0].clone()))
        model(**batch, labels=batch["input_ids"]).loss.backward()
    assert len(seen[0]) == len(seen[1]) == 1 and close(seen[0][0], seen[1][0])


@pytest.mark.parametrize(
    "name", ["q_proj", "q_norm", "up_proj", "act_fn", "post_attention_layernorm"]
)
def test_forward_replaced_on_an_instance(pair, batch, name):
    def change(model):
        module = part(model, name)[1]
        plain = module.forward
        module.forward = lambda x: plain(x) * 1.5

    differs(pair, batch, change)


def test_forward_replaced_on_a_class(pair, batch, original, rewritten):
    before = check(pair, batch)
    for module in (original, rewritten):
        module.Qwen3RMSNorm.forward = lambda self, x: x * self.weight
    assert not torch.equal(check(pair, batch), before)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("helper", ["apply_rotary_pos_emb", "rotate_half"])
def test_replaced_helper(pair, batch, original, rewritten, helper, compiled):
    if compiled:
        compiled = torch.compile(pair[1], fullgraph=True, backend="eager")
        pair = (pair[0], lambda **b: compiled(**b, use_cache=False))
    before = check(pair, batch, close)
    if helper == "rotate_half":
        new = lambda x: x.flip(-1)  # noqa: E731
    else:
        new = lambda q, k, cos, sin: (q * cos.unsqueeze(1), k * sin.unsqueeze(1))  # noqa: E731
    for module in (original, rewritten):
        setattr(module, helper, new)
    assert not close(check(pair, batch, close), before)


@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], ["gate_proj"], "all-linear"])
def test_lora(pair, batch, targets):
    peft = pytest.importorskip("peft")

    def adapted(model):
        torch.manual_seed(3)
        options = peft.LoraConfig(
            r=4, target_modules=targets, init_lora_weights=False, task_type="CAUSAL_LM"
        )
        return peft.get_peft_model(model, options).eval()

    before = check(pair, batch)
    adapters = [adapted(m) for m in pair]
    after = check(adapters, batch)
    assert not torch.equal(after, before)
    merged = [m.merge_and_unload() for m in adapters]
    assert close(check(merged, batch), after)


class Doubling(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


@pytest.mark.parametrize("name", ["q_proj", "gate_proj"])
def test_subclassed_linear(pair, batch, name):
    def change(model):
        owner, old = part(model, name)
        new = Doubling(old.in_features, old.out_features, bias=False)
        new.load_state_dict(old.state_dict())
        setattr(owner, name, new)

    differs(pair, batch, change)


class Int8Linear(nn.Module):
    """Weights as int8 with a scale per row; not a Linear at all."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (linear.weight.detach() / scale).round().to(torch.int8))

    def forward(self, x):
        return x @ (self.weight * self.scale).t()


@pytest.mark.parametrize(
    "names", [["k_proj"], ["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"]]
)
def test_quantized_modules(pair, batch, names):
    def change(model):
        for name in names:
            owner, old = part(model, name)
            setattr(owner, name, Int8Linear(old))

    differs(pair, batch, change)


def test_dynamic_quantization(pair, batch):
    if "qnnpack" not in torch.backends.quantized.supported_engines:
        pytest.skip("no quantized engine in this build of torch")
    quantized = [torch.ao.quantization.quantize_dynamic(m, {nn.Linear}, torch.qint8) for m in pair]
    check(quantized, batch)


@pytest.mark.parametrize("name", ["q_proj", "up_proj"])
def test_parametrization(pair, batch, name):
    def change(model):
        class Negated(nn.Module):
            def forward(self, w):
                return -w

        nn.utils.parametrize.register_parametrization(part(model, name)[1], "weight", Negated())

    differs(pair, batch, change)


def test_eps_changed_later(pair, batch):
    differs(pair, batch, lambda m: setattr(m.model.norm, "variance_epsilon", 10.0))


def test_weights_assigned_later(pair, batch):
    def change(model):
        state = {k: v * 1.5 for k, v in model.state_dict().items()}
        model.load_state_dict(state, assign=True)

    differs(pair, batch, change)


# ------------------------------------------------------------------ copies, files
def test_functional_call(pair, batch):
    values = {k: v * 1.1 for k, v in pair[0].state_dict().items()}
    outs = [
        torch.func.functional_call(m, values, kwargs=dict(batch, use_cache=False)).logits
        for m in pair
    ]
    assert equal(*outs) and not torch.equal(outs[0], logits(pair[0], batch))


def test_deepcopy_is_independent(pair, batch):
    copies = [copy.deepcopy(m) for m in pair]
    before = check(pair, batch)
    with torch.no_grad():
        for m in copies:
            m.model.layers[0].self_attn.q_proj.weight.mul_(2)
    assert torch.equal(check(pair, batch), before)
    assert not torch.equal(check(copies, batch), before)


def test_save_and_load_across(pair, batch, original, rewritten, tmp_path):
    for i, model in enumerate(pair):
        model.save_pretrained(tmp_path / str(i))
    names = [sorted(p.name for p in (tmp_path / str(i)).iterdir()) for i in (0, 1)]
    assert names[0] == names[1]
    for name in names[0]:
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes(), name
    crossed = [
        original.Qwen3ForCausalLM.from_pretrained(tmp_path / "1").eval(),
        rewritten.Qwen3ForCausalLM.from_pretrained(tmp_path / "0").eval(),
    ]
    assert torch.equal(check(crossed, batch), check(pair, batch))


def test_pickle(pair, batch):
    again = pickle.loads(pickle.dumps(pair[1]))
    assert type(again) is type(pair[1])
    check((pair[0], again), batch)
