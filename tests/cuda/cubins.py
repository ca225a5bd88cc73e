"""Compiles kernels to real machine code for one target, on the way that a model's calls go: the
simulated driver then refuses to load it, and the rule's torch operations run.

    python cubins.py TARGET [all]

A program of its own, since a process has one target. `all`: every reference, not only those of
KERNELS. Prints JSON: by which path each call ran, the cache's file that was made for it, now or by an
earlier run, and the runtime's warnings. `entry` and `read_cubin` read such a file.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE)]

import torch  # noqa: E402
from shapes import (  # noqa: E402
    DTYPES,
    FLOAT32_ALONE,
    act_arguments,
    gated_arguments,
    heads_first,
    l2_arguments,
    norm_rope_arguments,
    rope_arguments,
    tables,
    values,
)

NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


@dataclass
class Kernel:
    """A call that needs one kernel, of any dtype; the most that its machine code may take."""

    name: str
    op: str
    variant: str
    arguments: Callable[[torch.dtype], tuple]
    registers: int
    shared: int


def _norm(width):
    return lambda d: (values((2, width), d, 1), values((width,), d, 2), 1e-6)


def _add_norm(width):
    x = lambda d, seed: values((2, width), d, seed)  # noqa: E731
    return lambda d: (x(d, 1), x(d, 2), values((width,), d, 3), 1e-6, 0)


def _add_layer_norm(width):
    x = lambda d, seed: values((2, width), d, seed)  # noqa: E731
    affine = lambda d, seed: values((width,), d, seed)  # noqa: E731
    return lambda d: (x(d, 1), x(d, 2), affine(d, 3), affine(d, 4), 1e-6, width)


def _gated(variant, width, groups=1):
    x = lambda d, seed: values((2, width), d, seed)  # noqa: E731
    return lambda d: gated_arguments(variant, x(d, 1), x(d, 2), 0, values((width,), d, 3), groups)


def _l2(variant, width):
    return lambda d: l2_arguments(variant, values((2, width), d, 1))


def _act(variant, act):
    return lambda d: act_arguments(variant, act, values((2, 64), d, 1), values((2, 64), d, 2))


def _softcap(dtype):
    return values((2, 64), dtype, 1), 30.0, 0.5


def _rope(variant, head):
    def make(dtype):
        q, k = heads_first((1, 4, 3, head), dtype, 1, True), heads_first((1, 2, 3, head), dtype, 2)
        return rope_arguments(variant, q, k, *tables(variant, 1, 3, head, dtype))

    return make


def _norm_rope(head):
    def make(dtype):
        from holding import NORMS

        shape = (1, 3, 4, head)
        return norm_rope_arguments("norm_transpose_rope", NORMS[0], shape, 2, (dtype,) * 3, values)

    return make


NORM, ADD = ("rms_norm", "cast_then_weight"), ("add_rms_norm", "add_then_norm")
LAYER = ("add_layer_norm", "add_then_norm")
GATED = ("gated_rms_norm", "cast_weight_then_gate")
GROUPS = ("gated_rms_norm", "gate_then_norm_of_groups")
# Registers. A multiprocessor has 65536 of them for 1536 (sm_86, sm_89, sm_120) to 2048 threads: with
# 64 for each at least half of those are there, which hides memory's latency where each thread has
# several loads of 128 bits under way. Norm and rope hold a head of q, its weight and its angles. Rows
# of 16384 are held whole, 32 elements of 16 bits and their sums for each of 512 threads, which could
# have 128; wider ones have four packs on their way at a time, of two arrays where they are added.
# Of gated norms: what they take, and a little.
# Shared bytes. Two floats for each warp, and where several rows share a block its weight, converted:
# 2560 floats at most (of 16-bit weights half of that), and a layer norm's bias.
KERNELS = [
    Kernel("norm of 128", *NORM, _norm(128), 40, 512),
    Kernel("norm of 2560", *NORM, _norm(2560), 52, 10496),
    Kernel("norm of 16384", *NORM, _norm(16384), 112, 256),
    Kernel("norm of 40000", *NORM, _norm(40000), 80, 128),
    Kernel("add and norm of 2560", *ADD, _add_norm(2560), 52, 10496),
    Kernel("add and norm of 16384", *ADD, _add_norm(16384), 112, 256),
    Kernel("add and layer norm of 128", *LAYER, _add_layer_norm(128), 56, 1024),
    Kernel("add and layer norm of 2560", *LAYER, _add_layer_norm(2560), 64, 20736),
    Kernel("add and layer norm of 16384", *LAYER, _add_layer_norm(16384), 128, 256),
    Kernel("add and layer norm of 40000", *LAYER, _add_layer_norm(40000), 128, 256),
    Kernel("gated norm of 128", *GATED, _gated(GATED[1], 128), 56, 0),
    Kernel("gated norm of 8192", *GATED, _gated(GATED[1], 8192), 88, 128),
    Kernel("gate and norm of 8 times 512", *GROUPS, _gated(GROUPS[1], 4096, 8), 112, 64),
    Kernel("l2 norm of 128", "l2_norm", "by_pow", _l2("by_pow", 128), 48, 0),
    Kernel("l2 norm of 16384", "l2_norm", "by_sqrt", _l2("by_sqrt", 16384), 112, 256),
    Kernel("silu", "act_mul", "two_inputs", _act("two_inputs", "SILU"), 48, 0),
    Kernel("gelu", "act_mul", "two_inputs", _act("two_inputs", "GELU"), 60, 0),
    Kernel(
        "new gelu, packed",
        "act_mul",
        "packed_gate_first",
        _act("packed_gate_first", "NEW_GELU"),
        60,
        0,
    ),
    Kernel(
        "silu, interleaved",
        "act_mul",
        "packed_interleaved",
        _act("packed_interleaved", "SILU"),
        48,
        0,
    ),
    Kernel("softcap", "softcap", "scaled", _softcap, 48, 0),
    Kernel("rope of 128", "rope", "half_both", _rope("half_both", 128), 64, 0),
    Kernel("rope of pairs", "rope", "pairs_both_repeat", _rope("pairs_both_repeat", 64), 48, 0),
    Kernel("norm and rope of 128", "qk_norm_rope", "norm_transpose_rope", _norm_rope(128), 72, 0),
]


def every_reference() -> Iterator[Kernel]:
    """A kernel for each reference and activation, at one width; held to no budget but local memory."""
    from holding import NORMS, variants
    from shapes import add_norm_arguments, norm_arguments
    from tfrewrite import activations

    def x(dtype):
        return values((2, 1024), dtype, 1)

    def w(dtype):
        return values((1024,), dtype, 2)

    for numbered in NORMS:
        norm = numbered[1]
        yield Kernel(
            norm.name,
            "rms_norm",
            norm.name,
            lambda d, n=norm: norm_arguments(n, x(d), w(d)),
            255,
            20480,
        )
        yield Kernel(
            f"add, {norm.name}",
            *ADD,
            lambda d, n=numbered: add_norm_arguments(n, x(d), x(d), w(d)),
            255,
            20480,
        )
        for variant in variants("qk_norm_rope"):
            yield Kernel(
                f"{variant}, {norm.name}",
                "qk_norm_rope",
                variant,
                lambda d, v=variant, n=numbered: norm_rope_arguments(
                    v, n, (1, 3, 4, 128), 2, (d,) * 3, values
                ),
                255,
                20480,
            )
    for variant in variants("gated_rms_norm"):
        if variant != "groups_of_rows_gated_before_or_after":  # it has no torch operations to run
            yield Kernel(variant, "gated_rms_norm", variant, _gated(variant, 1024, 4), 255, 20480)
    for variant in variants("add_layer_norm"):
        yield Kernel(variant, "add_layer_norm", variant, _add_layer_norm(1024), 255, 20480)
    for variant in variants("l2_norm"):
        if variant in FLOAT32_ALONE or variant.startswith(
            "by_norm"
        ):  # float32 alone; no operations
            continue
        yield Kernel(variant, "l2_norm", variant, _l2(variant, 1024), 255, 256)
    for variant in variants("act_mul"):
        for act in activations.ACTS if variant == "two_inputs" else activations.ACTS[:1]:
            yield Kernel(f"{variant}, {act}", "act_mul", variant, _act(variant, act), 255, 0)
    for variant in variants("softcap"):
        given = lambda d, v=variant: (x(d), 30.0, 0.5)[: 2 + (v == "scaled")]  # noqa: E731
        yield Kernel(variant, "softcap", variant, given, 255, 0)
    for variant in variants("rope"):
        yield Kernel(variant, "rope", variant, _rope(variant, 128), 255, 0)


# ------------------------------------------------------------------ what was compiled
@dataclass
class Cubin:
    """What machine code says of itself. Sections and attributes as in jit/cubin.c, read anew."""

    name: str = ""
    arch: str = ""
    registers: int = 0
    shared: int = 0
    local: int = 0
    threads: int = 0


def entry(file: Path) -> tuple[str, str, bytes]:
    """Label, target and binary of a file of the cache (docs/CACHE.md)."""
    data = file.read_bytes()
    at, parts = 48, []
    for size in struct.unpack_from("<4I", data, 12):
        parts.append(data[at : at + size])
        at += size
    return parts[0].decode(), parts[1].decode(), parts[3]


def read_cubin(data: bytes) -> Cubin:
    out = Cubin()
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<3H", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]

    def text(at):
        return data[at : data.index(b"\0", at)].decode()

    sections = {text(heads[names_at][4] + h[0]): h for h in heads}
    kernels = [name[6:] for name in sections if name.startswith(".text.")]
    assert len(kernels) == 1, kernels
    out.name = kernels[0]
    for name in (".nv.info", f".nv.info.{out.name}"):
        head = sections[name]
        for attribute, value in _attributes(data[head[4] : head[4] + head[5]]):
            numbers = struct.unpack(f"<{len(value) // 4}I", value[: len(value) // 4 * 4])
            if attribute == 0x2F:
                out.registers = numbers[1]
            elif attribute in (0x11, 0x12):
                out.local = max(out.local, numbers[1])
            elif attribute == 0x05:
                out.threads = numbers[0] * numbers[1] * numbers[2]
    out.local = max([out.local, *(h[5] for n, h in sections.items() if n.startswith(".nv.local"))])
    note = sections[".note.nv.tkinfo"]
    options = data[note[4] : note[4] + note[5]].split(b"-arch ", 1)[1]
    out.arch = options.split(b"\0")[0].split(b" ")[0].decode()
    if shared := sections.get(f".nv.shared.{out.name}"):
        out.shared = shared[5] - (1024 if int(out.arch.strip("sm_af")) >= 90 else 0)
    return out


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        size = size if form == 4 else 0
        yield attribute, data[at + 4 : at + 4 + size]
        at += 4 + size


def main(target: str, which: str = "") -> None:
    os.environ["TFR_CUDA_TARGET"] = target
    import warnings

    import simulated
    from tfrewrite import kernels, rules

    torch.set_num_threads(1)
    kernels.install(rules.load())
    folder = Path(os.environ["TFR_CACHE_DIR"]) / "kernels"
    index = folder / f"{target}.json"  # not a name of the cache's, which leaves it alone
    made = json.loads(index.read_text()) if index.exists() else {}
    paths = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kernel in every_reference() if which == "all" else KERNELS:
            for dtype in DTYPES:
                name = f"{kernel.name}, {NAMES[dtype]}"
                before = set(folder.glob("*.tfrk"))
                simulated.kernel(kernel.op, kernel.variant)(*kernel.arguments(dtype))
                paths[name] = kernels.last_path()
                for file in set(folder.glob("*.tfrk")) - before:
                    made[name] = file.name
        kernels.install(rules.load())  # hands the library's warnings on
    assert simulated.launches() == 0
    index.write_text(json.dumps(made))
    warned = [str(w.message) for w in caught]
    json.dump({"paths": paths, "made": made, "warnings": warned}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
