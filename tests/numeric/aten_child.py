"""Checks of the aten programs in processes of their own: TFR_FORCE is read when an op is registered.

python aten_child.py CHECK...: each check is a function below, run in a fork of a process that has
imported torch; a failure is an exception. Prints status and output of each as JSON. Every op
that is registered runs its program on all its arguments' shapes, strides and dtypes, and must give
the bits, the dtypes and the strides of its rule's reference. A table says how an op's arguments
look; an op without a row is an error.
"""

import itertools
import json
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]
OPS_BY_CHECK = (
    "rms_norm",
    "add_rms_norm",
    "add_layer_norm",
    "gated_rms_norm",
    "l2_norm",
    "act_mul",
    "rope",
    "qk_norm_rope",
    "softcap",
    "linear",
    "linears",
)
if __name__ == "__main__":
    os.environ["TFR_FORCE"] = ",".join(f"{op}:aten" for op in (*OPS_BY_CHECK, "sums"))
    os.environ["TFR_JIT"] = "off"

import torch  # noqa: E402
from tfrewrite import activations, kernels, rules  # noqa: E402

OPS = rules.load()
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
DTYPES = (F32, BF16, F16)
NORMS = [i for i, v in enumerate(OPS["rms_norm"].variants) if v.kernel is not None]
WEIGHTLESS = [i for i in NORMS if "weight" not in OPS["rms_norm"].variants[i].kinds]


# ------------------------------------------------------------------ arguments
def tensor(*shape, dtype, layout="dense"):
    """Random values with a NaN, an infinity and a zero of each sign; `layout` says how it lies."""
    if layout == "gaps":
        return tensor(*shape[:-1], 2 * shape[-1], dtype=dtype)[..., ::2]
    if layout == "turned" and len(shape) > 2:
        turned = (shape[1], shape[0], *shape[2:])
        return tensor(*turned, dtype=dtype).transpose(0, 1)
    if layout == "offset":
        return tensor(*shape[:-1], shape[-1] + 3, dtype=dtype)[..., 1:-2]
    x = (torch.randn(shape) * 3).to(dtype)
    flat = x.view(-1)
    for i, value in enumerate((float("nan"), float("inf"), -0.0, 0.0)):
        if flat.numel() > 40:
            flat[7 + 9 * i] = value
    return x


LAYOUTS = ("dense", "gaps", "turned", "offset")
SHAPES = ((3, 5, 24), (1, 1, 1), (2, 7), (0, 8), (2, 0, 6), (4, 3, 2, 130))


def norm_weights(width, dtypes, number):
    """What a norm with that number may be given."""
    if number in WEIGHTLESS:
        return [None]
    return [tensor(width, dtype=dtype) for dtype in dtypes]


def is_from(major, minor):
    return tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) >= (major, minor)


# torch 2.9 cannot be given gelu's `approximate` without Python.
ACTS = [i for i, name in enumerate(activations.ACTS) if is_from(2, 10) or "GELU" not in name[:5]]
NEEDS_STRINGS = ("gelu_tanh_function",)
# Where the lowering does not know the reference's operations: without a kernel the reference runs.
WITHOUT_PROGRAM = re.findall(
    r"^tfr::\w+\.(\w+)\(.*\nit has no torch operations",
    (ROOT / "tests" / "unit" / "aten_programs.txt").read_text(),
    re.MULTILINE,
)


def rms_norm(variant, dtype):
    takes_weight = "weight" in variant.kinds
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        x = tensor(*shape, dtype=dtype, layout=layout)
        for weight in [tensor(shape[-1], dtype=d) for d in (dtype, F32)] if takes_weight else [()]:
            yield (x, weight, 1e-6) if takes_weight else (x, 1e-6)


def add_rms_norm(variant, dtype):
    for shape, layout, number in itertools.product(SHAPES, LAYOUTS, NORMS):
        x = tensor(*shape, dtype=dtype, layout=layout)
        residual = tensor(*shape, dtype=dtype)
        for weight in norm_weights(shape[-1], (dtype, F32), number):
            yield x, residual, weight, 1e-5, number


def add_layer_norm(variant, dtype):
    if not is_from(2, 10):  # torch 2.9 cannot be given a list without Python
        return
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        x, residual = tensor(*shape, dtype=dtype, layout=layout), tensor(*shape, dtype=dtype)
        weight, bias = tensor(shape[-1], dtype=dtype), tensor(shape[-1], dtype=dtype)
        for affine in ((weight, bias), (weight, None), (None, None)):
            yield x, residual, *affine, 1e-5, shape[-1]


def gated_rms_norm(variant, dtype):
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        x = tensor(*shape, dtype=dtype, layout=layout)
        for act, other in ((0, dtype), (5, F32)):
            weight = tensor(shape[-1], dtype=other)
            size = (1 if shape[-1] % 2 else shape[-1] // 2,) if "size" in variant.kinds else ()
            yield x, tensor(*shape, dtype=other), act, weight, 1e-6, *size


def l2_norm(variant, dtype):
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        x = tensor(*shape, dtype=dtype, layout=layout)
        yield x, *({"eps": 1e-6, "dim": -1}[p] for p in list(variant.kinds)[1:])


def act_mul(variant, dtype):
    names = list(variant.kinds)
    acts = ACTS if "act" in names else [None]
    for shape, layout, act in itertools.product(SHAPES, LAYOUTS, acts):
        first = () if act is None else (act,)
        last = [
            {"limit": 1.5, "slope": 1.702, "dim": -1}[n]
            for n in ("limit", "slope", "dim")
            if n in names
        ]
        if "up" in names:
            gate = tensor(*shape, dtype=dtype, layout=layout)
            yield *first, gate, tensor(*shape, dtype=dtype), *last
            continue
        both = tensor(*shape[:-1], 2 * shape[-1], dtype=dtype, layout=layout)
        yield *first, both, *last


def softcap(variant, dtype):
    for shape, layout, cap in itertools.product(SHAPES, LAYOUTS, (30.0, -0.5)):
        yield (10 * tensor(*shape, dtype=dtype, layout=layout), cap, 0.37)[: len(variant.kinds)]


def angles(shape, variant, dtype):
    """cos and sin: [b, s, r]."""
    b, s, width = shape
    if "partial" in variant.name or "trailing" in variant.name:
        width = width // 2
    if "_width" in variant.name:
        width = width // 2
    return [tensor(b, s, width, dtype=dtype) for _ in range(2)]


def rope(variant, dtype):
    """q and k: [b, h, s, d] with dim 1, [b, s, h, d] with dim 2."""
    names = list(variant.kinds)
    sizes = [(2, 3, 5, 16), (1, 1, 1, 8), (2, 4, 1, 24), (0, 2, 3, 8)]
    for (b, h, s, d), layout, dim, other in itertools.product(sizes, LAYOUTS, (1, 2), (dtype, F32)):
        shape = (b, h, s, d) if dim == 1 else (b, s, h, d)
        if not b and ("_view" in variant.name or "_unflatten" in variant.name):
            continue  # of nothing, -1 could be any size
        if "regrouped" in variant.name and layout == "gaps":
            continue  # its view needs neighbours side by side, in Python too
        cos, sin = angles((b, s, d), variant, other)
        if "dim" not in names:
            cos, sin = cos.unsqueeze(dim), sin.unsqueeze(dim)
        many = [tensor(*shape, dtype=dtype, layout=layout) for _ in names if _ in ("q", "k", "x")]
        yield (*many, cos, sin, dim) if "dim" in names else (*many, cos, sin)


def qk_norm_rope(variant, dtype):
    for (b, s, h, d), layout, number in itertools.product(
        [(2, 3, 5, 16), (1, 1, 2, 8), (2, 0, 2, 8)], LAYOUTS, NORMS
    ):
        q = tensor(b, s, h, d, dtype=dtype, layout=layout)
        k = tensor(b, s, 1, d, dtype=dtype, layout=layout)
        cos, sin = (tensor(b, s, d, dtype=dtype) for _ in range(2))
        dim = 1 if "transpose" in variant.name else 2
        for weight in norm_weights(d, (dtype, F32), number):
            yield q, k, weight, 1e-6, number, weight, 1e-6, number, cos, sin, dim


def products(count, dtype):
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        x = tensor(*shape, dtype=dtype, layout=layout)
        modules = []
        for i in range(count):
            modules.append(tensor(5 + i, shape[-1], dtype=dtype))
            modules.append(None if i % 2 else tensor(5 + i, dtype=dtype))
        yield x, *modules


def arguments(op, variant, dtype):
    if op in ("linear", "linears"):
        return products(1 if op == "linear" else int(variant[1:]), dtype)
    found = next(v for v in OPS[op].variants if v.name == variant)
    return globals()[op](found, dtype)


# ------------------------------------------------------------------ checks
def bits(t):
    """A NaN has any bits: a bound as a tensor makes another one than a bound as a number."""
    kind = {F32: torch.int32, BF16: torch.int16, F16: torch.int16}[t.dtype]
    return t.where(~t.isnan(), float("nan")).contiguous().view(kind)


def as_tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def same(op, variant, given):
    where = f"{op}.{variant} of {[tuple(t.shape) for t in given if isinstance(t, torch.Tensor)]}"
    got = as_tuple(kernels.get(op, variant)(*given))
    assert kernels.last_path() == "aten", where
    want = as_tuple(kernels.reference(OPS[op], variant)(*given))
    assert len(got) == len(want), where
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, where
        assert a.stride() == b.stride(), f"{where}: strides {b.stride()} became {a.stride()}"
        off = int((bits(a) != bits(b)).sum())
        assert off == 0, f"{where}, {b.dtype}: {off} of {b.numel()} elements differ"


def check_op(op):
    variants = [v for o, v in kernels._ops if o == op and v not in WITHOUT_PROGRAM]
    if not is_from(2, 10):
        variants = [v for v in variants if v not in NEEDS_STRINGS]
    assert variants
    for variant, dtype in itertools.product(variants, DTYPES):
        count = 0
        for given in arguments(op, variant, dtype):
            same(op, variant, given)
            count += 1
        print(f"{op}.{variant} {dtype}: {count}")
        assert count


def check_names():
    assert {op for op, _ in kernels._ops} == set(OPS_BY_CHECK)


def fails(pattern, function, *given):
    try:
        function(*given)
    except RuntimeError as error:
        assert pattern in str(error), error
    else:
        raise AssertionError(f"no error that says {pattern}")


def check_errors():
    """Torch's own words, with the op's name, and nothing kept."""
    x, short, zero = torch.ones(2, 8), torch.ones(3), torch.ones(0)
    what = "must match" if is_from(2, 13) else "aten::mul"
    fails(what, kernels.get("rms_norm", "cast_then_weight"), x, short, 1e-6)
    fails("rms_norm.cast_then_weight", kernels.get("rms_norm", "cast_then_weight"), x, short, 1e-6)
    fails("aten::", kernels.get("linear", "m1"), x, torch.ones(4, 7), None)
    add = kernels.get("add_rms_norm", "add_then_norm")
    fails("a tensor is missing", add, x, x, None, 1e-6, 0)  # that norm has a weight
    fails("no torch operations", add, x, x, None, 1e-6, 99)
    fails("no torch operations", kernels.get("act_mul", "two_inputs"), 99, x, x)
    grouped = kernels.get("gated_rms_norm", "groups_of_rows_gated_before_or_after")
    fails("no torch operations", grouped, x, x, 0, torch.ones(8), 1e-6, 2, 1)
    grouped = kernels.get("gated_rms_norm", "gate_then_norm_of_groups")
    fails("aten::view", grouped, x, x, 0, torch.ones(8), 1e-6, 3)  # no whole number of groups
    fails("division by zero", grouped, x, x, 0, torch.ones(8), 1e-6, 0)
    fails("aten::narrow", kernels.get("act_mul", "packed_gate_first"), 0, torch.ones(2, 7), -1)
    assert x._base is None and zero.numel() == 0


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_leaks():
    """Inputs are held by nobody afterwards, and no memory stays, with a result or with an error."""
    q = torch.randn(1, 8, 512, 64)
    cos, w, short = torch.randn(1, 512, 64), torch.randn(64), torch.randn(63)
    turn, norm = kernels.get("rope", "half_both"), kernels.get("rms_norm", "cast_then_weight")
    both = kernels.get("qk_norm_rope", "norm_rope")
    uses = [torch._C._storage_Use_Count(t.untyped_storage()._cdata) for t in (q, cos, w)]

    def calls(n):
        for _ in range(n):
            turn(q, q, cos, cos, 1)
            norm(q, w, 1e-6)
            fails("tfr::", turn, q, q, short, short, 1)
            fails("tfr::", norm, q, short, 1e-6)
            fails("tfr::", both, q, q, w, 1e-6, 0, short, 1e-6, 0, cos, cos, 1)

    calls(20)
    before = resident()
    calls(100)  # of 1 MB tensors: a handle that stays in each would be 100 MB
    assert resident() - before < 30 << 20
    assert uses == [torch._C._storage_Use_Count(t.untyped_storage()._cdata) for t in (q, cos, w)]
    result = norm(q, w, 1e-6)
    assert torch._C._storage_Use_Count(result.untyped_storage()._cdata) <= max(uses)


class Block(torch.nn.Module):
    def forward(self, x, residual, weight, gate):
        y, s = torch.ops.tfr.add_rms_norm.add_then_norm(x, residual, weight, 1e-6, 0)
        return torch.ops.tfr.act_mul.two_inputs(0, gate, y) + s


def block_inputs():
    x, residual, gate = (torch.randn(2, 5, 16) for _ in range(3))
    return x, residual, torch.randn(16), gate


def check_compiled():
    torch._dynamo.config.suppress_errors = False
    given = block_inputs()
    want = Block()(*given)
    assert kernels.last_path() == "aten"
    compiled = torch.compile(Block(), fullgraph=True, backend="inductor")
    with torch.no_grad():
        assert torch.equal(compiled(*given), want)
    assert kernels.last_path() == "aten"


def check_exported():
    given = block_inputs()
    program = torch.export.export(Block(), given)
    assert "torch.ops.tfr.add_rms_norm.add_then_norm" in program.graph_module.code
    want = Block()(*given)
    assert torch.equal(program.module()(*given), want)
    assert kernels.last_path() == "aten"


RULE = """
from tfrewrite.rules import Tensor, op, ref

op("sums(Tensor x, Tensor y) -> Tensor", cpu="sums.c")


@ref("sums(x, y)", kernel="")
def of_both(x: Tensor, y: Tensor):
    return x.cumsum(-1) * y
"""


def check_user_rule():
    """A rule with an op that aten.def does not have: it is said, and Python runs the reference."""
    from tfrewrite import ops

    template = (ROOT / "codegen_templates" / "act_mul.c").read_text()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sums.py").write_text(RULE)
        (Path(folder) / "sums.c").write_text(template)
        os.environ["TFR_JIT"] = "sync"
        rules.add(folder)
        ops.install(rules.load())
        x, y = torch.randn(3, 8), torch.randn(3, 8)
        fails("does not have the op cumsum", kernels.get("sums", "of_both"), x, y)
        assert torch.equal(ops.sums(x, y), x.cumsum(-1) * y)


def run(check):
    """The status and what it wrote, of one check in a process of its own."""
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            try:
                if check in OPS_BY_CHECK:
                    check_op(check)
                else:
                    globals()[f"check_{check}"]()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        output.seek(0)
        return status, output.read().decode(errors="replace")


def main(checks):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    kernels.install(OPS)
    json.dump({check: run(check) for check in checks}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
