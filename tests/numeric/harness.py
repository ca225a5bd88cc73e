"""Runs an original and a rewritten modeling module side by side in one process and compares them.

Both modules lie in the same package (so relative imports work) under different names, share the
configuration class, and get the same weights. Knows nothing of pytest and nothing of single ops:
what is expected is data in families.py.
"""

import ast
import copy
import importlib
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PYTHON_DIR = Path(__file__).resolve().parents[2] / "python"
BATCH, SEQ = (
    2,
    9,
)  # no length equals a head count, so that a transposed tensor never has the shape of its source
MAX_REL = 1e-5  # float32: largest difference over the largest magnitude of the original
MAX_ULP_SHARE = (
    1e-3  # bfloat16: share of elements that may differ, by one unit in the last place each
)
# Error against an exact model of one bfloat16 tensor of one model, over the original's: a single
# draw, so only gross faults show in it. test_float64.py holds the mean over models and seeds.
MAX_ERROR_RATIO = 1.5


class Mismatch(AssertionError):
    """The rewritten side differs from the original; the message names the tensor."""


# ------------------------------------------------------------------ sources and modules
@dataclass
class Rewritten:
    text: str
    fused: list[dict]
    refused: list[dict]
    changed: bool


def binary() -> str:
    """The tfrewrite program under test: $TFR_BIN, else the one on PATH."""
    path = os.environ.get("TFR_BIN") or shutil.which("tfrewrite")
    if not path or not os.access(path, os.X_OK):
        raise FileNotFoundError(
            f"no tfrewrite program: TFR_BIN={os.environ.get('TFR_BIN')!r}, none on PATH"
        )
    return path


def modeling_path(family: str) -> Path:
    spec = importlib.util.find_spec("transformers")  # no import of the modeling file itself
    path = Path(spec.origin).parent / "models" / family / f"modeling_{family}.py"
    if not path.exists():
        raise FileNotFoundError(path)
    return path


def rewrite_file(path: Path, *options: str) -> Rewritten:
    """What the program makes of one file; CalledProcessError when it does not exit with 0."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / path.name
        done = subprocess.run(
            [binary(), "--json", *options, "-o", str(out), str(path)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise subprocess.CalledProcessError(
                done.returncode, done.args, done.stdout, done.stderr
            )
        (report,) = json.loads(done.stdout)["files"]
        text = out.read_text() if out.exists() else path.read_text()
    return Rewritten(text, report["fused"], report["refused"], report["changed"])


@cache
def rewrite_family(family: str, target: str = "auto") -> Rewritten:
    return rewrite_file(modeling_path(family), "--target", target)


@cache
def _module_folder() -> Path:
    import atexit

    folder = Path(tempfile.mkdtemp(prefix="tfrewrite-numeric-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def load_module(family: str, text: str, tag: str, recorder: "Recorder | None" = None):
    """`text` as a second modeling module of transformers.models.<family>, next to the original one.

    The file keeps the tail transformers/models/<family>/modeling_<family>.py, which
    auto_docstring reads.
    """
    if str(PYTHON_DIR) not in sys.path:
        sys.path.insert(0, str(PYTHON_DIR))
    name = f"transformers.models.{family}.modeling_{family}__{tag}"
    path = _module_folder() / tag / "transformers" / "models" / family / f"modeling_{family}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    if recorder is not None:
        text = instrument(text)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    if recorder is not None:
        module._tfr_recorded = recorder.take
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def original_text(family: str) -> str:
    return modeling_path(family).read_text()


def original_module(family: str):
    """The installed modeling module itself, untouched by any import hook of this process."""
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")


def float64_text(text: str) -> str:
    """The source with its float32 casts made float64, which `.double()` leaves as they are."""
    text = re.sub(r"\btorch\.float(32)?\b", "torch.float64", text)
    return re.sub(r"\.float\(\)", ".double()", text)


# ------------------------------------------------------------------ recording of op calls
@dataclass
class Call:
    op: str
    owner: str  # class, Class.method for other methods than forward, or function()
    literals: dict
    results: list[torch.Tensor] = field(default_factory=list)  # clones of values
    strides: list[tuple[int, ...]] = field(default_factory=list)


def ops_alias(tree: ast.Module) -> str | None:
    """The name under which a rewritten file imports tfrewrite.ops."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "tfrewrite":
            for item in node.names:
                if item.name == "ops":
                    return item.asname or item.name
    return None


class _OpCalls(ast.NodeVisitor):
    """Collects (call node, op, owner) of every tfr.<op>(...) call."""

    def __init__(self, alias: str):
        self.alias, self.scope, self.found = alias, [], []

    def _scoped(self, node):
        self.scope.append(node)
        self.generic_visit(node)
        self.scope.pop()

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _scoped

    def visit_Call(self, node):
        f = node.func
        if (
            isinstance(f, ast.Attribute)
            and isinstance(f.value, ast.Name)
            and f.value.id == self.alias
        ):
            self.found.append((node, f.attr, self._owner()))
        self.generic_visit(node)

    def _owner(self):
        classes = [n.name for n in self.scope if isinstance(n, ast.ClassDef)]
        functions = [n.name for n in self.scope if not isinstance(n, ast.ClassDef)]
        if not classes:
            return f"{functions[-1]}()" if functions else "module"
        return classes[-1] if functions[:1] == ["forward"] else f"{classes[-1]}.{functions[-1]}"


def op_calls(text: str) -> list[tuple[ast.Call, str, str]]:
    """(call, op, owner) for each op call in a rewritten file, in source order."""
    tree = ast.parse(text)
    alias = ops_alias(tree)
    if alias is None:
        return []
    visitor = _OpCalls(alias)
    visitor.visit(tree)
    return sorted(visitor.found, key=lambda f: (f[0].lineno, f[0].col_offset))


def instrument(text: str) -> str:
    """Wraps every op call as `_tfr_recorded(op, owner, literals, <call>)`.

    Done in the text and not by replacing `tfrewrite.ops`, so that no frame comes between a caller
    and its op: an op may look
    at its caller's globals to see whether a helper is still the file's own.
    """
    lines = text.encode().split(b"\n")
    inserts = []
    for order, (node, op, owner) in enumerate(op_calls(text)):
        literals = {
            k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)
        }
        inserts.append(
            (
                node.lineno - 1,
                node.col_offset,
                order,
                f"_tfr_recorded({op!r}, {owner!r}, {literals!r}, ",
            )
        )
        inserts.append((node.end_lineno - 1, node.end_col_offset, -1, ")"))
    for line, column, _, what in sorted(inserts, reverse=True):
        lines[line] = lines[line][:column] + what.encode() + lines[line][column:]
    return b"\n".join(lines).decode()


class Recorder:
    """Receives every op call of an instrumented module. Values are kept only when `keep` is set."""

    def __init__(self, keep: bool = False):
        self.calls: list[Call] = []
        self.keep = keep

    def take(self, op, owner, literals, result):
        call = Call(op, owner, literals)
        if self.keep:
            for t in tree_leaves(result):
                call.results.append(t.detach().clone())
                call.strides.append(t.stride())
        self.calls.append(call)
        return result


class Trace(TorchDispatchMode):
    """Every tensor that the operators of a run produce: value, and strides as they were."""

    def __init__(self):
        super().__init__()
        self.seen: list[tuple[torch.Tensor, tuple[int, ...]]] = []
        self.joined: list[tuple[torch.Tensor, tuple[int, ...]]] = []  # with an empty rest

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.is_floating_point():
                self.seen.append((t.detach().clone(), t.stride()))
        if func is torch.ops.aten.cat.default:
            if any(t.numel() == 0 and t.dim() == out.dim() for t in args[0]):
                self.joined.append(self.seen[-1])
        return out

    def strides_of(self, value: torch.Tensor) -> list[tuple[int, ...]]:
        """The strides with which a value first came up; none if it never did.

        Partial rope over the whole width joins its result with nothing: the same value once more,
        laid out anew. An op may stand for the rope with the join or without it.
        """
        found = []
        for known in (self.seen, self.joined):
            for v, strides in known:
                if v.shape == value.shape and v.dtype == value.dtype and _close(v, value):
                    found.append(strides)
                    break
        return found


# ------------------------------------------------------------------ models
def randomize(model, seed: int = 0) -> None:
    """The same weights for the same names; norm weights and biases move away from constants."""
    done = set()
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if id(p) in done:
                continue
            done.add(id(p))
            noise = torch.Generator().manual_seed(zlib.crc32(f"{name}/{seed}".encode()))
            r = torch.randn(p.shape, generator=noise)
            if p.dim() < 2:
                if not hasattr(p, "_centre"):  # before the first noise
                    p._centre = 1.0 if bool((p == 1).all()) else 0.0
                p.copy_(p._centre + 0.3 * r)
            else:
                p.copy_(r if "embed" in name else r / math.sqrt(p.shape[-1]))


def build(module, family, variant: str, attn: str = "eager", dtype=torch.float32, seed: int = 0):
    """A tiny model of `family` (families.Family) from `module`, in evaluation mode."""
    configs = importlib.import_module(
        f"transformers.models.{family.name}.configuration_{family.name}"
    )
    config = getattr(configs, family.config)(**copy.deepcopy(family.config_values(variant)))
    config._attn_implementation = attn
    torch.manual_seed(seed)
    model = getattr(module, family.model)._from_config(config, attn_implementation=attn)
    randomize(model.float(), seed)
    model.generation_config.eos_token_id = None  # generate to full length
    return model.to(dtype).eval()


def copy_weights(source, target) -> None:
    """The whole state of `source` into `target`, which must have the very same names and shapes."""
    if list(source.state_dict()) != list(target.state_dict()):
        raise Mismatch(
            "state_dict keys: "
            f"{set(source.state_dict()) ^ set(target.state_dict()) or 'other order'}"
        )
    target.load_state_dict(source.state_dict(), strict=True)


def inputs(model, padded: bool = False, length: int = SEQ) -> dict:
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(3, model.config.vocab_size, (BATCH, length), generator=generator)
    mask = torch.ones_like(ids)
    if padded:
        mask[0, :3] = 0
        ids[0, :3] = 0
    return {"input_ids": ids, "attention_mask": mask}


# ------------------------------------------------------------------ runs: each returns what is
# compared
def prefill(model, batch: dict) -> dict:
    eager = model.config._attn_implementation == "eager"
    with torch.no_grad():
        out = model(**batch, use_cache=True, output_hidden_states=True, output_attentions=eager)
    if eager and not out.attentions:
        raise Mismatch("no attentions in the output")
    return dict(out)


def decode(model, batch: dict) -> dict:
    """Prefill, then one token, then three tokens, on the same cache."""
    results = {}
    with torch.no_grad():
        out = model(**batch, use_cache=True)
        results["prefill"] = out.logits
        kv, mask = out["cache"], batch["attention_mask"]
        for step, n in (("one token", 1), ("three tokens", 3)):
            mask = torch.cat([mask, mask.new_ones(BATCH, n)], dim=1)
            ids = torch.arange(5, 5 + BATCH * n).view(BATCH, n)
            out = model(input_ids=ids, attention_mask=mask, cache=kv, use_cache=True)
            results[step] = out.logits
    results["cache"] = kv
    return results


def generate(model, batch: dict, cache_implementation: str, tokens: int = 6, forced=None) -> dict:
    """Greedy tokens, or those of `forced`, and the logits of each step."""
    force = None if forced is None else lambda row, ids: [int(forced[row, len(ids)])]
    out = model.generate(
        **batch,
        max_new_tokens=tokens,
        prefix_allowed_tokens_fn=force,
        do_sample=False,
        cache_implementation=cache_implementation,
        disable_compile=True,
        return_dict_in_generate=True,
        output_logits=True,
    )
    return {"sequences": out.sequences, "logits": list(out.logits)}


def train(model, batch: dict) -> dict:
    """Loss and the gradient of every parameter of one step."""
    was = model.training
    model.train()
    model.zero_grad(set_to_none=True)
    out = model(**batch, labels=batch["input_ids"], use_cache=False)
    out.loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    model.train(was)
    return {"loss": out.loss.detach(), "logits": out.logits.detach(), "grad": grads}


# ------------------------------------------------------------------ comparison
def flatten(value, path: str = "") -> dict:
    """Leaves by path. A cache gives the keys and values of its layers."""
    if value is None or isinstance(value, (torch.Tensor, int, float, str, bool)):
        return {path: value}
    if hasattr(value, "layers"):
        value = [{"keys": layer.keys, "values": layer.values} for layer in value.layers]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        raise TypeError(f"{path}: {type(value).__name__}")
    leaves = {}
    for k, v in items:
        leaves.update(flatten(v, f"{path}.{k}" if path else str(k)))
    return leaves


def real_strides(shape, strides) -> tuple:
    """Strides with those of dimensions of size one left out: no address depends on them."""
    return tuple(s for n, s in zip(shape, strides) if n != 1)


def ordered_bits(t: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the 16-bit floats, so that neighbours differ by one."""
    i = t.contiguous().view(torch.int16).to(torch.int32)
    return torch.where(i < 0, -32768 - i, i)


@dataclass
class Figures:
    """The worst seen by one comparison."""

    max_rel: float = 0.0
    ulp_share: float = 0.0
    max_ulp: int = 0
    tensors: int = 0
    ratios: list[float] = field(default_factory=list)  # of errors against an exact model

    def __str__(self):
        return (
            f"{self.tensors} tensors, max-rel {self.max_rel:.2g},"
            f" bf16 elements off {100 * self.ulp_share:.3g}%"
            f" (by at most {self.max_ulp} ulp)"
        )


def compare_values(path: str, ref, new, figures: Figures, max_rel: float = MAX_REL) -> None:
    figures.tensors += 1
    if not torch.equal(ref.isnan(), new.isnan()):
        raise Mismatch(f"{path}: NaN in other places")
    if not ref.is_floating_point():
        if not torch.equal(ref, new):
            raise Mismatch(f"{path}: {int((ref != new).sum())} of {ref.numel()} elements differ")
    elif ref.dtype in (torch.bfloat16, torch.float16):
        off = (ordered_bits(ref.nan_to_num(0)) - ordered_bits(new.nan_to_num(0))).abs()
        share, worst = (
            float((off > 0).float().mean()) if off.numel() else 0.0,
            int(off.max()) if off.numel() else 0,
        )
        figures.ulp_share, figures.max_ulp = (
            max(figures.ulp_share, share),
            max(figures.max_ulp, worst),
        )
        if share > MAX_ULP_SHARE or worst > 1:
            raise Mismatch(f"{path}: {100 * share:.3g}% of elements differ, by up to {worst} ulp")
    elif ref.numel():
        same = ref == new  # equal infinities
        scale = float(ref[ref.isfinite()].abs().max()) if bool(ref.isfinite().any()) else 0.0
        difference = torch.where(same, torch.zeros_like(ref), (ref - new).abs()).nan_to_num(
            0.0, posinf=math.inf
        )
        rel = float(difference.max()) / scale if scale else float(difference.max())
        figures.max_rel = max(figures.max_rel, rel)
        if not rel <= max_rel:
            raise Mismatch(f"{path}: largest difference {rel:.3g} of the largest magnitude")


def compare_to_exact(path, ref, new, exact, figures) -> None:
    """A bfloat16 tensor: `new` lies about as near to `exact` as `ref` does."""
    figures.tensors += 1
    if not torch.equal(ref.isnan(), new.isnan()):
        raise Mismatch(f"{path}: NaN in other places")
    if not torch.equal(ref.isinf(), new.isinf()) or not torch.equal(
        ref[ref.isinf()], new[new.isinf()]
    ):
        raise Mismatch(f"{path}: infinities in other places")
    finite = ref.isfinite() & exact.isfinite()
    errors = [rms(t[finite].double() - exact[finite].double()) for t in (ref, new)]
    if not finite.any():
        return
    ratio = error_ratio(*errors)
    figures.ratios.append(ratio)
    figures.ulp_share = max(figures.ulp_share, float((ref != new).float().mean()))
    if ratio > MAX_ERROR_RATIO:
        raise Mismatch(f"{path}: error {ratio:.3g} times the original's")


def compare(ref, new, strides: bool = True, exact=None, max_rel: float = MAX_REL) -> Figures:
    """Raises Mismatch unless names, shapes, dtypes, strides and (within bounds) values agree.

    With `exact`, the same outputs of an exact model, 16-bit values need only be as near to those
    as the original's are: what kernels are held to, whose products add up in another order.
    """
    a, b, c = flatten(ref), flatten(new), flatten(exact) if exact is not None else {}
    figures = Figures()
    if list(a) != list(b):
        raise Mismatch(f"other outputs: {sorted(set(a) ^ set(b))}")
    for path, x in a.items():
        y = b[path]
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            if type(x) is not type(y) or x != y:
                raise Mismatch(f"{path}: {x!r} became {y!r}")
            continue
        for what in ("shape", "dtype"):
            if getattr(x, what) != getattr(y, what):
                raise Mismatch(f"{path}: {what} {getattr(x, what)} became {getattr(y, what)}")
        if strides and real_strides(x.shape, x.stride()) != real_strides(y.shape, y.stride()):
            raise Mismatch(f"{path}: strides {x.stride()} became {y.stride()}")
        if x.dtype in (torch.bfloat16, torch.float16) and exact is not None:
            compare_to_exact(path, x, y, c[path], figures)
        else:
            compare_values(path, x, y, figures, max_rel)
    if not figures.tensors:
        raise Mismatch("nothing was compared")
    return figures


def compare_generation(ref: dict, new: dict, max_rel: float = MAX_REL) -> Figures:
    """Logits within the bound, up to where tokens part, which needs a tie within it."""
    figures = Figures()
    steps = len(ref["logits"])
    if len(new["logits"]) != steps or ref["sequences"].shape != new["sequences"].shape:
        raise Mismatch("generation of another length")
    prompt = ref["sequences"].shape[1] - steps
    alive = torch.ones(ref["sequences"].shape[0], dtype=torch.bool)
    for i in range(steps):
        a, b = ref["logits"][i][alive], new["logits"][i][alive]
        compare_values(f"step {i}", a, b, figures, max_rel)
        parted = ref["sequences"][:, prompt + i] != new["sequences"][:, prompt + i]
        for row in torch.nonzero(parted & alive).flatten().tolist():
            logits = ref["logits"][i][row].float()
            gap = float(logits.max() - logits[new["sequences"][row, prompt + i]])
            bound = max_rel if ref["logits"][i].dtype == torch.float32 else 2**-7
            if gap > 2 * bound * float(ref["logits"][i].abs().max()):
                raise Mismatch(f"step {i}, row {row}: another token without a tie (gap {gap:.3g})")
        alive &= ~parted
    return figures


def compare_op_results(calls: list[Call], trace: Trace) -> int:
    """Each op result must be a value of the original run, laid out as where it first appeared."""
    checked = 0
    for call in calls:
        if not call.results:
            raise Mismatch(f"{call.owner}: {call.op} returned no tensor")
        for i, (result, strides) in enumerate(zip(call.results, call.strides, strict=True)):
            where = f"{call.owner}: result {i} of {call.op}"
            original = trace.strides_of(result)
            if not original:
                raise Mismatch(
                    f"{where} ({tuple(result.shape)}, {result.dtype}) is no value of the original"
                )
            allowed = [real_strides(result.shape, s) for s in original]
            if real_strides(result.shape, strides) not in allowed:
                raise Mismatch(f"{where}: strides {original[0]} became {strides}")
            checked += 1
    return checked


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    try:
        compare_values("", a, b, Figures())
    except Mismatch:
        return False
    return True


# ------------------------------------------------------------------ error against float64
def rms(difference: torch.Tensor) -> float:
    return float(difference.double().pow(2).mean().sqrt())


def geometric_mean(values) -> float:
    values = list(values)
    return math.exp(sum(math.log(v) for v in values) / len(values))


def error_ratio(ref_error: float, new_error: float) -> float:
    """new/ref, where two exact results count as equal and a lost exactness as very large."""
    if ref_error == 0.0:
        return 1.0 if new_error == 0.0 else 1e6
    return max(new_error / ref_error, 1e-6)
