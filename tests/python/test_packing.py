"""prepare() and unpack(): a packed model beside an unpacked copy of itself.

Both are the same rewritten Qwen3, and everything a person may do to a model is done to both. Where
the outputs come from modules called one by one (training, autocast, hooks) the same code runs on
equal weights, and bits are compared; else one product may stand for several, and 1e-5 of the
largest magnitude is the bound.
"""

import contextlib
import copy
import io
import pickle
import sys
import weakref

import pytest
import tfrewrite
import torch
from test_models import Doubling, build, close, logits, part, rewritten_module
from test_packing_groups import Int8Weight
from tfrewrite import packing
from torch import nn


@pytest.fixture(scope="module")
def rewritten(binary):
    module = rewritten_module("packed")
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(autouse=True)
def fresh():
    yield
    torch._dynamo.reset()


def prepared(model):
    assert len(tfrewrite.prepare(model, pack=True).packed) == 4
    return model


@pytest.fixture
def pair(rewritten):
    """A model as it was made, and a packed one."""
    return build(rewritten), prepared(build(rewritten))


@pytest.fixture
def batch():
    ids = torch.randint(1, 64, (2, 7), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    return {"input_ids": ids, "attention_mask": mask}


def check(pair, batch, same=close):
    a, b = (logits(m, batch) for m in pair)
    assert same(a, b), f"largest difference {(a - b).abs().max()}"
    return a


def changed(pair, batch, change, same=close):
    """Makes the same change to both; it must show, and equally."""
    before = check(pair, batch)
    for model in pair:
        with torch.no_grad():
            change(model)
    after = check(pair, batch, same)
    assert not close(after, before)
    return after


def other(weight):
    """Other values that no norm behind the projection takes back."""
    return weight.flip(0) * 1.5


def states(model):
    """The state of the four groups: attention and MLP, layer after layer."""
    return [g.state for g in packing.state(model).groups]


PACKED, APART, REFUSED = packing.ALREADY, packing.APART, packing.REFUSED
WEIGHTS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj"]
WEIGHTS = [f"model.layers.{i}.{name}" for i in (0, 1) for name in [*WEIGHTS, "mlp.up_proj"]]


def addresses(model):
    return [(p.data_ptr(), p.nbytes) for p in map(model.get_parameter, weights())]


def weights():
    return [f"{name}.weight" for name in WEIGHTS]


def spoil(model):
    """Writes into a packed weight."""
    weight = model.get_parameter(weights()[0])
    weight.copy_(other(weight))


# ------------------------------------------------------------------ what prepare does
def test_what_stays(rewritten, batch):
    model = build(rewritten)
    before, want = copy.deepcopy(model.state_dict()), logits(model, batch)
    kept = dict(model.named_parameters())
    strides = {k: p.stride() for k, p in kept.items()}
    versions = {k: p._version for k, p in kept.items()}
    made = tfrewrite.prepare(model, pack=True)
    assert [g.members for g in made.packed] == 2 * [
        ("q_proj", "k_proj", "v_proj"),
        ("gate_proj", "up_proj"),
    ]
    after = dict(model.named_parameters())
    assert list(after) == list(kept) and all(after[k] is kept[k] for k in kept)
    state = model.state_dict()
    assert list(state) == list(before)
    for name, value in before.items():
        assert torch.equal(state[name], value)
    for name, p in after.items():
        assert type(p) is nn.Parameter and p.requires_grad and p.is_leaf
        assert p.stride() == strides[name] and p._version == versions[name]
        assert p.storage_offset() == 0 and p.untyped_storage().nbytes() == p.nbytes
    for first, second in [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7), (8, 9)]:
        (a, size), (b, _) = addresses(model)[first], addresses(model)[second]
        assert a + size == b
    assert close(logits(model, batch), want)


def test_only_the_groups_move(rewritten):
    model = build(rewritten)
    before = {k: p.data_ptr() for k, p in model.named_parameters()}
    tfrewrite.prepare(model, pack=True)
    moved = {k for k, p in model.named_parameters() if p.data_ptr() != before[k]}
    assert moved == set(weights())


def test_twice_is_once(pair):
    before = addresses(pair[1])
    again = tfrewrite.prepare(pair[1], pack=True)
    assert len(again.already) == 4 and addresses(pair[1]) == before
    assert not again.packed and sum(g.copied for g in again.groups) == 0


def test_memory(rewritten, monkeypatch):
    """One group at a time is held twice, and the old memory is free when its copy is made."""
    model = build(rewritten)
    old = {k: weakref.ref(model.get_parameter(k).untyped_storage()) for k in weights()}
    alive = []
    move = packing._move_together

    def counting(parameters):
        alive.append(sum(storage() is not None for storage in old.values()))
        move(parameters)

    monkeypatch.setattr(packing, "_move_together", counting)
    tfrewrite.prepare(model, pack=True)
    assert alive == [10, 7, 4, 2]  # the groups of three go first
    assert not any(storage() for storage in old.values())
    buffers = weakref.ref(model.get_parameter(weights()[0]).untyped_storage())
    del model
    assert buffers() is None


def test_pack_false(rewritten):
    model = build(rewritten)
    before = addresses(model)
    assert len(tfrewrite.prepare(model, pack=False).apart) == 4 and addresses(model) == before


def test_unpack(pair, batch):
    plain, model = pair
    names = list(model.state_dict())
    kept = [id(p) for p in model.parameters()]
    made = tfrewrite.unpack(model)
    assert len(made.apart) == 4 and len(tfrewrite.unpack(model).apart) == 4
    assert list(model.state_dict()) == names and [id(p) for p in model.parameters()] == kept
    for p in model.parameters():
        assert p.untyped_storage() not in packing._parts and p.untyped_storage().resizable()
    check((plain, model), batch, torch.equal)
    assert len(tfrewrite.prepare(model, pack=True).packed) == 4


def test_prepare_and_unpack_raise_in_a_capture(pair, monkeypatch):
    before = addresses(pair[1])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for function in (tfrewrite.prepare, tfrewrite.unpack):
        for model in pair:
            with pytest.raises(RuntimeError, match="during a CUDA graph capture"):
                function(model)
    assert addresses(pair[1]) == before
    # Where nothing has used CUDA, the question would start it.
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    tfrewrite.prepare(pair[0], pack=True)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_prepare_inside_compiled_code(pair, fullgraph):
    """It breaks the graph and runs as always, or the graph cannot be made."""

    @torch.compile(backend="eager", fullgraph=fullgraph)
    def both(x):
        tfrewrite.prepare(pair[0], pack=True)
        return x + 1

    if fullgraph:
        with pytest.raises(Exception, match="call it outside compiled code"):
            both(torch.ones(2))
    else:
        assert both(torch.ones(2)).sum() == 4
    assert states(pair[0]) == 4 * [APART if fullgraph else PACKED]


def test_texts(rewritten):
    model = build(rewritten, num_hidden_layers=30, head_dim=8)
    assert "Qwen3MLP x30: gate_proj, up_proj: not packed" in str(tfrewrite.report(model))
    model.model.layers[3].mlp.up_proj.register_forward_hook(lambda *_: None)
    lines = str(tfrewrite.prepare(model, pack=True)).splitlines()
    assert "59 packed, 1 refused" in lines[0] and "Qwen3ForCausalLM" in lines[0]
    groups = [line for line in lines[1:] if "/" not in line]  # those of other ops aside
    assert sorted(groups) == [
        "  Qwen3Attention x30: q_proj, k_proj, v_proj: packed",
        "  Qwen3MLP x1: gate_proj, up_proj: refused: up_proj has a forward hook "
        "(first: model.layers.3.mlp)",
        "  Qwen3MLP x29: gate_proj, up_proj: packed",
    ]
    assert "Qwen3Attention x30: q_proj, k_proj, v_proj: already packed" in str(
        tfrewrite.report(model)
    )


def test_nothing_to_prepare():
    model = nn.Sequential(nn.Linear(4, 4))
    with pytest.warns(tfrewrite.TfrewriteWarning, match="nothing is fused in Sequential"):
        made = tfrewrite.prepare(model, pack=True)
    assert not made.groups and "no projections" in str(made)


# ------------------------------------------------------------------ weights change
def test_functional_call(pair, batch):
    values = {k: v * 1.1 for k, v in pair[0].state_dict().items()}
    arguments = dict(batch, use_cache=False)
    with torch.no_grad():
        outs = [torch.func.functional_call(m, values, kwargs=arguments).logits for m in pair]
    assert close(*outs) and not close(outs[0], check(pair, batch))
    assert states(pair[1]) == 4 * [PACKED]


@pytest.mark.parametrize("name", WEIGHTS[:5])
def test_data_assigned(pair, batch, name):
    def change(model):
        weight = model.get_submodule(name).weight
        weight.data = other(weight)

    changed(pair, batch, change)
    assert sorted(states(pair[1])) == [PACKED] * 3 + [APART]
    made = tfrewrite.prepare(pair[1], pack=True)
    assert len(made.packed) == 1 and len(made.already) == 3
    check(pair, batch)


@pytest.mark.parametrize("name", WEIGHTS[:5])
def test_changed_in_place(pair, batch, name):
    changed(pair, batch, lambda m: (w := m.get_submodule(name).weight).copy_(other(w)))
    assert states(pair[1]) == 4 * [PACKED]


@pytest.mark.parametrize("whole", [False, True])
def test_attribute_assigned(pair, batch, whole):
    def change(model):
        owner, old = part(model, "k_proj")
        weight = nn.Parameter(other(old.weight))
        if whole:
            owner.k_proj = nn.Linear(old.in_features, old.out_features, bias=False)
            owner.k_proj.weight = weight
        else:
            old.weight = weight

    changed(pair, batch, change)
    assert states(pair[1]) == [PACKED, PACKED, APART, PACKED]
    assert len(tfrewrite.prepare(pair[1], pack=True).packed) == 1
    check(pair, batch)


@pytest.mark.parametrize("assign", [False, True])
def test_load_state_dict(pair, batch, assign):
    def change(model):
        model.load_state_dict({k: v * 1.5 for k, v in model.state_dict().items()}, assign=assign)

    changed(pair, batch, change)
    assert states(pair[1]) == 4 * [APART if assign else PACKED]
    prepared(pair[1]) if assign else None
    check(pair, batch)


def test_deepcopy_is_independent(pair, batch):
    before = check(pair, batch)
    copies = [copy.deepcopy(m) for m in pair]
    assert states(copies[1]) == 4 * [APART]
    with torch.no_grad():
        for m in copies:
            spoil(m)
    assert not close(check(copies, batch), before)
    assert torch.equal(check(pair, batch), before)
    prepared(copies[1])
    assert not close(check(copies, batch), before)
    with torch.no_grad():
        for m in pair:
            spoil(m)
    check((copies[1], pair[1]), batch)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_optimizer_made_before(rewritten, batch, kind):
    models = [build(rewritten) for _ in "ab"]
    optimizers = [kind(m.parameters(), lr=0.01) for m in models]
    for step in range(3):
        if step == 1:
            prepared(models[1])
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            model(**batch, labels=batch["input_ids"], use_cache=False).loss.backward()
            optimizer.step()
    assert states(models[1]) == 4 * [PACKED]
    for (name, a), b in zip(models[0].named_parameters(), models[1].parameters()):
        assert torch.equal(a, b) and torch.equal(a.grad, b.grad), name
    check(models, batch)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_training_after_inference_mode(rewritten, batch, checkpointing):
    models = [build(rewritten) for _ in "ab"]
    with torch.inference_mode():
        prepared(models[1])
        models[1](**batch)
    for model in models:
        model.train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        model(**batch, labels=batch["input_ids"], use_cache=False).loss.backward()
    for (name, a), b in zip(models[0].named_parameters(), models[1].parameters()):
        assert not b.is_inference() and torch.equal(a.grad, b.grad), name


def test_between_forward_and_backward(rewritten, batch):
    models = [build(rewritten) for _ in "ab"]
    losses = [m(**batch, labels=batch["input_ids"], use_cache=False).loss for m in models]
    prepared(models[1])
    for loss in losses:
        loss.backward()
    for (name, a), b in zip(models[0].named_parameters(), models[1].parameters()):
        assert torch.equal(a.grad, b.grad), name


def test_made_in_inference_mode(rewritten, batch):
    with torch.inference_mode():
        models = [build(rewritten) for _ in "ab"]
    prepared(models[1])
    assert all(p.is_inference() for p in models[1].parameters())
    with torch.inference_mode():
        assert close(*(m(**batch).logits for m in models))
    tfrewrite.unpack(models[1])
    assert all(p.is_inference() for p in models[1].parameters())


# ------------------------------------------------------------------ modes and types
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(pair, batch, dtype):
    plain = check(pair, batch)
    with torch.autocast("cpu", dtype):
        assert not close(check(pair, batch, torch.equal).float(), plain)
    check(pair, batch)


def test_inference_mode(pair, batch):
    with torch.inference_mode():
        assert close(*(m(**batch).logits for m in pair))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate(pair, batch, cache):
    options = dict(max_new_tokens=5, do_sample=False, disable_compile=True)
    a, b = (m.generate(**batch, **options, cache_implementation=cache) for m in pair)
    assert a.shape == (2, 12) and torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_to_dtype(pair, batch, dtype):
    """The alias is lost; equal weights that lie apart run the same code."""
    check([m.to(dtype) for m in pair], batch, torch.equal)
    assert states(pair[1]) == 4 * [APART]
    prepared(pair[1])
    a, b = (logits(m, batch) for m in pair)
    bound = 4 * torch.finfo(dtype).eps  # a product more or less is one rounding
    assert (a - b).abs().max() <= bound * a.abs().max()


def test_to_the_same_dtype_and_device(pair, batch):
    pair[1].to(torch.float32).to("cpu").float().eval()
    assert states(pair[1]) == 4 * [PACKED]


def test_to_meta_and_back(pair, batch):
    values = copy.deepcopy(pair[0].state_dict())
    for model in pair:
        model.to("meta")
    for g in tfrewrite.prepare(pair[1], pack=True).groups:
        assert g.state == REFUSED and "is on device meta" in g.reason
    tfrewrite.unpack(pair[1])
    for model in pair:
        model.load_state_dict(values, assign=True)
        model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    prepared(pair[1])
    check(pair, batch)


def test_default_device_is_not_used(rewritten):
    model = build(rewritten)
    with torch.device("meta"):
        prepared(model)
    assert all(p.device.type == "cpu" for p in model.parameters())


def test_fake_mode(rewritten):
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = build(rewritten)
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = tfrewrite.prepare(model, pack=True)
    assert len(made.refused) == 4 and "a mode is active" in made.refused[0].reason
    prepared(model)


@pytest.mark.parametrize("first", ["compile", "prepare"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(rewritten, batch, first, backend):
    plain, model = (build(rewritten) for _ in "ab")
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    run = lambda **b: compiled(**b, use_cache=False)  # noqa: E731
    if first == "prepare":
        prepared(model)
    check((plain, run), batch)
    if first == "compile":
        prepared(compiled)
        check((plain, run), batch)
    for m in (plain, model):  # what compiled code has seen once may not go on being used
        m.load_state_dict({k: v * 1.5 for k, v in m.state_dict().items()}, assign=True)
    check((plain, run), batch)
    prepared(model)
    with torch.no_grad():
        for m in (plain, model):
            spoil(m)
    check((plain, run), batch)
    tfrewrite.unpack(model)
    check((plain, run), batch)


def test_compiled_training_step(pair, batch):
    arguments = dict(**batch, labels=batch["input_ids"], use_cache=False)
    pair[0](**arguments).loss.backward()
    torch.compile(pair[1], fullgraph=True, backend="aot_eager")(**arguments).loss.backward()
    for (name, a), b in zip(pair[0].named_parameters(), pair[1].parameters()):
        assert close(a.grad, b.grad), name


# ------------------------------------------------------------------ things put into a model
@pytest.mark.parametrize("name", ["q_proj", "v_proj", "up_proj"])
@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook"])
def test_hook_added_later(pair, batch, name, kind):
    seen = []

    def change(model):
        def hook(module, args, *out):
            seen.append(module)
            return out[0] + 1 if out else (args[0] + 1,)

        getattr(part(model, name)[1], f"register_{kind}")(hook)

    changed(pair, batch, change)
    assert seen == [part(m, name)[1] for m in pair]
    made = packing.state(pair[1])
    assert [g.state for g in made.groups].count(REFUSED) == 1
    assert kind.removeprefix("forward_").replace("_", "-") in made.refused[0].reason


def test_backward_hook_added_later(pair, batch):
    seen = {0: [], 1: []}
    for i, model in enumerate(pair):
        hooked = part(model, "q_proj")[1]
        hooked.register_full_backward_hook(lambda _m, _i, out, i=i: seen[i].append(out[0].clone()))
        model(**batch, labels=batch["input_ids"]).loss.backward()
    assert len(seen[0]) == len(seen[1]) == 1 and torch.equal(seen[0][0], seen[1][0])


def test_forward_replaced_later(pair, batch):
    def change(model):
        module = part(model, "q_proj")[1]
        plain = module.forward
        module.forward = lambda x: plain(x) + 1

    changed(pair, batch, change)
    assert "has a forward of its own" in packing.state(pair[1]).refused[0].reason


def test_parametrized_later(pair, batch):
    class Negated(nn.Module):
        def forward(self, w):
            return -w

    def change(model):
        module = part(model, "up_proj")[1]
        nn.utils.parametrize.register_parametrization(module, "weight", Negated())

    changed(pair, batch, change)
    assert states(pair[1]).count(REFUSED) == 1


def test_subclassed_later(pair, batch):
    def change(model):
        owner, old = part(model, "v_proj")
        new = Doubling(old.in_features, old.out_features, bias=False)
        new.load_state_dict(old.state_dict())
        owner.v_proj = new

    changed(pair, batch, change)
    assert "Doubling" in packing.state(pair[1]).refused[0].reason


@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], "all-linear"])
@pytest.mark.parametrize("first", ["prepare", "lora"])
def test_lora(rewritten, batch, targets, first):
    peft = pytest.importorskip("peft")

    def adapted(model):
        torch.manual_seed(3)
        options = peft.LoraConfig(
            r=4, target_modules=targets, init_lora_weights=False, task_type="CAUSAL_LM"
        )
        return peft.get_peft_model(model, options).eval()

    models = [build(rewritten) for _ in "ab"]
    before = check(models, batch)
    if first == "prepare":
        prepared(models[1])
    adapters = [adapted(m) for m in models]
    made = tfrewrite.prepare(adapters[1], pack=True)
    assert len(made.refused) == (2 if "v_proj" in targets else 4)
    assert "q_proj is a peft." in made.refused[0].reason
    after = check(adapters, batch)
    assert not close(after, before)
    for adapter in adapters:  # merging writes into the weights, in place
        adapter.merge_adapter()
    assert close(check(adapters, batch), after)
    for adapter in adapters:
        adapter.unmerge_adapter()
    assert close(check(adapters, batch), after)
    merged = [m.merge_and_unload() for m in adapters]
    tfrewrite.prepare(merged[1], pack=True)
    assert states(merged[1]) == 4 * [PACKED]
    assert close(check(merged, batch), after)


def test_tied_parameters(pair, batch):
    """One Parameter in two places: it cannot lie in two groups."""

    def change(model):
        a, b = (layer.self_attn for layer in model.model.layers)
        b.k_proj.weight = a.k_proj.weight

    changed(pair, batch, change)
    assert states(pair[1]) == [PACKED, PACKED, REFUSED, PACKED]
    fresh = tfrewrite.prepare(change(copy.deepcopy(pair[0])) or copy.deepcopy(pair[0]), pack=True)
    assert [g.state for g in fresh.groups] == [REFUSED, packing.PACKED] * 2
    assert (
        "k_proj.weight is model.layers.0.self_attn.k_proj.weight and "
        "model.layers.1.self_attn.k_proj.weight" in fresh.refused[0].reason
    )


def test_tied_storage(pair, batch):
    """Two Parameters over the same memory: moving one would part them."""
    model = pair[0]
    a, b = (layer.mlp.up_proj.weight for layer in model.model.layers)
    b.data = a.data
    made = tfrewrite.prepare(model, pack=True)
    assert [g.state for g in made.groups] == [packing.PACKED, REFUSED] * 2
    assert "shares memory with model.layers.1.mlp.up_proj.weight" in made.refused[0].reason
    with torch.no_grad():
        a.mul_(2)
    assert torch.equal(a, b)


def test_tied_embeddings(rewritten, batch):
    models = [build(rewritten, tie_word_embeddings=True) for _ in "ab"]
    prepared(models[1])
    for model in models:
        assert model.lm_head.weight is model.model.embed_tokens.weight
        model.tie_weights()
    check(models, batch)
    assert states(models[1]) == 4 * [PACKED]


def test_resized_embeddings(pair, batch):
    for model in pair:
        torch.manual_seed(5)
        model.resize_token_embeddings(80)
    assert states(pair[1]) == 4 * [PACKED]
    assert check(pair, batch).shape[-1] == 80


def test_out_of_memory(pair, batch, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate\nmore lines")

    model = pair[0]
    with monkeypatch.context() as patch:
        patch.setattr(packing, "_move_together", fail)
        made = tfrewrite.prepare(model, pack=True)
    assert [g.reason for g in made.refused] == 4 * ["CUDA out of memory. Tried to allocate"]
    check(pair, batch)
    prepared(model)


def test_torchao_int8(pair, batch):
    quantization = pytest.importorskip("torchao", reason="torchao is not installed").quantization

    def change(model):
        quantization.quantize_(model, quantization.Int8WeightOnlyConfig())

    before = check(pair, batch)
    for model in pair:
        change(model)
    after = check(pair, batch, torch.equal)
    assert not torch.equal(after, before)
    made = tfrewrite.prepare(pair[1], pack=True)
    assert len(made.refused) == 4 and "is a torchao." in made.refused[0].reason
    assert torch.equal(check(pair, batch, torch.equal), after)


def test_wrapped_weights(pair, batch):
    def change(model):
        for name in WEIGHTS[1:3]:
            module = model.get_submodule(name)
            module.weight = nn.Parameter(Int8Weight(module.weight), requires_grad=False)

    before = check(pair, batch)
    for model in pair:
        change(model)
    assert not torch.equal(check(pair, batch), before)
    assert states(pair[1]) == [REFUSED, PACKED, PACKED, PACKED]
    assert "Int8Weight" in tfrewrite.prepare(pair[1], pack=True).refused[0].reason
    tfrewrite.unpack(pair[1])
    check(pair, batch)


@pytest.mark.parametrize("first", ["prepare", "offload"])
@pytest.mark.parametrize("where", ["cpu", "disk", "both"])
def test_offload(rewritten, batch, first, where, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    models = [build(rewritten) for _ in "ab"]
    want = check(models, batch)
    if first == "prepare":
        prepared(models[1])
    if where == "cpu":
        moved = accelerate.cpu_offload(models[1], torch.device("cpu"))
    elif where == "disk":
        moved = accelerate.disk_offload(models[1], str(tmp_path), torch.device("cpu"))
    else:
        places = dict.fromkeys(["model.embed_tokens", "model.rotary_emb", "model.norm"], "cpu")
        places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "lm_head": "cpu"}
        moved = accelerate.dispatch_model(
            models[1], places, main_device="cpu", offload_dir=str(tmp_path)
        )
    made = tfrewrite.prepare(moved, pack=True)
    assert len(made.refused) == 4 and "an accelerate hook" in made.refused[0].reason
    assert close(logits(moved, batch), want) and close(logits(moved, batch), want)


@contextlib.contextmanager
def one_process():
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield dist
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("first", ["prepare", "shard"])
def test_fsdp(rewritten, batch, first):
    with one_process():
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        plain, model = (build(rewritten) for _ in "ab")
        if first == "prepare":
            prepared(model)
        mesh = init_device_mesh("cpu", (1,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        made = tfrewrite.prepare(model, pack=True)
        assert len(made.refused) == 4 and "DTensor" in made.refused[0].reason
        check((plain, model), batch)
        for m in (plain, model):
            m(**batch, labels=batch["input_ids"], use_cache=False).loss.backward()
        for (name, a), b in zip(plain.named_parameters(), model.parameters()):
            assert close(a.grad, b.grad.full_tensor()), name


# ------------------------------------------------------------------ copies, files, processes
def test_save_pretrained(pair, batch, rewritten, tmp_path):
    for model, folder in zip(pair, "ab"):
        model.save_pretrained(tmp_path / folder)
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "b").iterdir())
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    again = rewritten.Qwen3ForCausalLM.from_pretrained(tmp_path / "b").eval()
    assert torch.equal(check((pair[0], again), batch), logits(pair[0], batch))
    made = tfrewrite.prepare(again, pack=True)
    assert not made.refused and len(made.packed) >= 2  # gate and up may lie so in the file
    check((pair[0], again), batch)


def test_other_files(pair, batch, tmp_path):
    """Files that other tools write are the same too, byte for byte."""
    from safetensors import torch as safetensors

    for model, folder in zip(pair, (tmp_path / "a", tmp_path / "b")):
        folder.mkdir()
        safetensors.save_model(model, str(folder / "model"))
        safetensors.save_file(model.state_dict(), str(folder / "file"))
        torch.save(model.state_dict(), folder / "torch")
        torch.save(model.get_parameter(weights()[0]), folder / "one")
    for name in ("model", "file", "torch", "one"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    loaded = torch.load(tmp_path / "b" / "torch", weights_only=True)
    assert all(torch.equal(v, loaded[k]) for k, v in pair[0].state_dict().items())


@pytest.mark.parametrize("how", ["pickle", "torch.save"])
def test_round_trip_of_a_model(pair, batch, how):
    if how == "pickle":
        again = pickle.loads(pickle.dumps(pair[1]))
    else:
        torch.save(pair[1], file := io.BytesIO())
        file.seek(0)
        again = torch.load(file, weights_only=False)
    assert states(again) == 4 * [APART]
    check((pair[0], again), batch)
    prepared(again)
    check((pair[0], again), batch)
    with torch.no_grad():
        spoil(again)
    check(pair, batch)


def test_shared_with_processes(pair, batch):
    for model in pair:
        model.share_memory()
    check(pair, batch, torch.equal)
    made = tfrewrite.prepare(pair[1], pack=True)
    assert len(made.refused) == 4 and "shared with other processes" in made.refused[0].reason
    assert all(p.is_shared() for p in pair[1].parameters())
