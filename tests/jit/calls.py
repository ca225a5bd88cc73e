"""One call of every kernel there is, from the ops' schemas: small float32 tensors of shapes that its
reference takes, and the reference's result.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from tfrewrite import kernels, ops, rules  # noqa: F401 - ops registers the kernels

torch.set_num_threads(1)
BATCH, HEADS, LENGTH, WIDTH, COLUMNS = 2, 4, 5, 16, 24
# Larger ones differ in nothing but the number of modules, and take seconds to compile.
LARGER = {("linears", f"m{n}") for n in range(3, 9)}
# One of each template.
FEW = [
    ("act_mul", "two_inputs"),
    ("add_layer_norm", "add_then_norm"),
    ("add_rms_norm", "add_then_norm"),
    ("l2_norm", "by_norm"),
    ("linear", "m1"),
    ("qk_norm_rope", "norm_transpose_rope"),
    ("rms_norm", "cast_then_weight"),
    ("rms_norm", "no_weight"),
    ("rope", "half_both"),
    ("softcap", "in_its_dtype"),
]


@dataclass
class Call:
    name: str
    kernel: Callable
    arguments: tuple
    expected: tuple

    def check(self) -> str:
        """Runs the kernel; gives its path."""
        with torch.no_grad():
            result = _tuple(self.kernel(*self.arguments))
        path = kernels.last_path()
        for got, want in zip(result, self.expected, strict=True):
            # torch.testing takes a second to import, in each child anew.
            assert got.shape == want.shape and got.dtype == want.dtype, self.name
            assert torch.allclose(got, want, rtol=1e-5, atol=1e-5), self.name
        return path


def _tuple(result) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _argument(op: str, variant: str, argument, number: int, cos_width: int):
    kind, name = str(argument.type), argument.name
    if kind == "float":
        return {"cap": 2.0, "scale": 0.5}.get(name, 1e-6)
    if kind == "int":
        if name.endswith("_variant"):
            norms = [variant.name for variant in rules.load()["rms_norm"].variants]
            return norms.index("cast_then_weight")
        if name == "dim":
            return -1 if op in ("act_mul", "l2_norm") else 1
        sizes = {"norm_size": WIDTH, "size": WIDTH // 2, "groups": 2}
        return {"act": 1, "norm_first": 1, **sizes}[name]
    shape: tuple[int, ...] = (BATCH, LENGTH, WIDTH)
    if "weight" in name or name == "norm_bias":
        shape = (WIDTH,)
    elif op.startswith("linear") and name != "x":
        shape = (COLUMNS,) if "b" in name.removeprefix("module") else (COLUMNS, WIDTH)
    elif name in ("cos", "sin"):
        shape = (BATCH, LENGTH, cos_width)
    elif op in ("rope", "qk_norm_rope"):
        shape = (BATCH, HEADS // 2 if name == "k" else HEADS, LENGTH, WIDTH)
        if "transpose" in variant:
            shape = (BATCH, LENGTH, shape[1], WIDTH)
    generator = torch.Generator().manual_seed(number)
    return torch.randn(shape, generator=generator)


def _call(op: str, variant: str) -> Call:
    kernel = kernels.get(op, variant)
    reference = kernels.reference(rules.load()[op], variant)
    faults = []
    for width in (WIDTH, WIDTH // 2):
        arguments = [
            _argument(op, variant, argument, i, width)
            for i, argument in enumerate(kernel._schema.arguments)
        ]
        if "_given" in variant:  # with the axis of the heads
            arguments[-2:] = [t.unsqueeze(1) for t in arguments[-2:]]
        try:
            with torch.no_grad():
                expected = _tuple(reference(*arguments))
            return Call(f"{op}.{variant}", kernel, tuple(arguments), expected)
        except RuntimeError as error:
            faults.append(error)
    raise AssertionError(f"no shapes for {op}.{variant}: {faults}")


def few() -> list[Call]:
    return [_call(*name) for name in FEW]


def every() -> list[Call]:
    return [_call(*name) for name in sorted(kernels._ops) if name not in LARGER]
