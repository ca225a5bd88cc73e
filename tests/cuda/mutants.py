"""Judges mutants of the kernels: a program of its own, since each runs in a forked process with the
driver not yet open.

    python mutants.py [COUNT] [SEED]

Prints JSON: the mutants that were caught, and those that survived. A mutant is caught if on any of
the arguments of its kernel a result is not right or less near to the reference than the kernel's, a
checker of the simulator reports, other bytes move, or the launch fails or does not end. All
arguments of one subject are served by one kernel.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE)]

import holding  # noqa: E402
import simulated  # noqa: E402
import torch  # noqa: E402
from holding import NORMS, Seen, hold  # noqa: E402
from ptx_mutants import Mutant, mutants  # noqa: E402
from shapes import (  # noqa: E402
    BF16,
    F16,
    F32,
    INF,
    NAN,
    act_arguments,
    every_rank,
    exact,
    gated_arguments,
    heads_first,
    l2_arguments,
    laid,
    norm_rope_arguments,
    rope_arguments,
    shifted,
    special_rows,
    tables,
    values,
)
from tfrewrite import activations  # noqa: E402

COUNT, SEED, SECONDS = 130, 5, 60
STEPS = 200000  # of a warp: far more than any call needs
COUNTERS = ("requested_read_bytes", "requested_write_bytes", "sectors", "requests", "requests_128")
DIED, SURVIVED, CAUGHT, INVALID = range(4)


# ------------------------------------------------------------------ what each kernel is run on
def rows_of(width, dtype) -> Iterator[torch.Tensor]:
    """Rows that tell faults apart: found in every way, aligned and not; of any values, NaN,
    infinities and huge numbers among them.
    """
    yield values((5, width), dtype, 11, 3.0)
    yield from every_rank(width, dtype, rows=150 if width < 1000 else 40)
    special = values((6, width), dtype, 13)
    special[1, width // 2], special[2, 0], special[3] = NAN, INF, 3e4
    special[4] = 0
    yield special
    yield shifted(special)
    yield values((1, 1, width), dtype, 1).expand(4, 3, width)


def norm_calls(width, dtype, weight_dtype, aligned=(True, False)):
    weight = values((width,), weight_dtype, 2)
    for x in rows_of(width, dtype):
        if (x.data_ptr() % 16 == 0) in aligned:
            yield x, weight, 1e-3
    small = values((5, width), dtype, 14) * 1e-2  # eps counts
    if True in aligned:
        yield small, weight, 1e-3
    yield small, shifted(weight), 1e-3


def add_norm_calls(width, dtype):
    weight = values((width,), dtype, 2)
    for x in rows_of(width, dtype):
        other = laid(values(x.shape, dtype, 15), x.data_ptr() % 16 == 0)
        yield x, other, weight, 1e-3, 0
        yield other, x, weight, 1e-3, 0
    small = values((5, width), dtype, 14) * 1e-2
    yield small, small.flip(0), weight, 1e-3, 0
    yield small, small.flip(0), shifted(weight), 1e-3, 0


def layer_norm_calls(width, dtype):
    weight, bias = values((width,), dtype, 2), values((width,), dtype, 4)
    for x in rows_of(width, dtype):
        other = laid(values(x.shape, dtype, 15), x.data_ptr() % 16 == 0)
        yield x, other, weight, bias, 1e-3, width
        yield other, x, weight, bias, 1e-3, width
    small = values((5, width), dtype, 14) * 1e-2
    yield small, small.flip(0), weight, bias, 1e-3, width
    yield small, small.flip(0), shifted(weight), bias, 1e-3, width
    yield small, small.flip(0), weight, shifted(bias), 1e-3, width


def gated_calls(variant, width, dtype, groups=1, norm_first=1):
    weight, silu = values((width,), dtype, 2), activations.ACTS.index("SILU")
    for x in rows_of(width, dtype) if groups < width else ():  # else too many steps for many rows
        if groups > 1 and not x.is_contiguous():  # which views of groups do not take
            continue
        gate = laid(values(x.shape, dtype, 15, 3.0), x.data_ptr() % 16 == 0)
        yield gated_arguments(variant, x, gate, silu, weight, groups, norm_first)
        yield gated_arguments(variant, gate, x, silu, weight, groups, norm_first)
    small, far = values((5, width), dtype, 14) * 1e-2, torch.linspace(-200, 200, width).to(dtype)
    for gate in (small.flip(0), far.expand(5, width).contiguous()):
        for other in (weight, shifted(weight)):
            a = gated_arguments(variant, small, gate, silu, other, groups, norm_first)
            yield *a[:4], 1e-3, *a[5:]


def l2_calls(variant, width, dtype):
    for x in rows_of(width, dtype):
        yield l2_arguments(variant, x, 1e-3)
    yield l2_arguments(variant, values((5, width), dtype, 14) * 1e-2, 1e-3)


def softcap_calls(dtype):
    """Numbers of elements around what a pack and a block have, and more than all blocks; rows of few."""
    for aligned in (True, False):
        for shape in ((1, 1), (1, 7), (1, 2048), (3, 20), (1, 6, 1000), (2, 3, 5, 40), (3, 9008)):
            for apart in (False, True):
                yield laid(values(shape, dtype, 3, 40.0), aligned, apart), 30.0, 0.37
        yield laid(special_rows(24, dtype), aligned), -2.0, 3.0


def act_calls(variant, act, width, dtype):
    """All exponents; rows found in every way, whole packs of elements and others."""
    number = activations.ACTS.index(act)
    wide = torch.arange(0, 1 << 16, 7, dtype=torch.int32).bitwise_left_shift(16).view(F32)
    wide = wide[wide.abs() < 3e38].to(dtype)
    near = values((4096,), dtype, 3, 2.0)
    for gate in (wide, shifted(wide), near, shifted(near)):
        yield act_arguments(variant, act, gate, torch.ones_like(gate))
        yield act_arguments(variant, act, gate[:-3], gate[:-3].flip(0))
    ways = [(n, aligned) for n in range(8) for aligned in (True, False)]
    rests = [laid(values((3, width + n), dtype, n), aligned) for n, aligned in ways]
    rests += [laid(values((1, width + n), dtype, n), aligned) for n, aligned in ways]
    rests += [laid(values((1, 20000), dtype, 1), aligned) for aligned in (True, False)]
    for gate in (*every_rank(width, dtype, values), *rests):
        aligned = gate.data_ptr() % 16 == 0
        if variant == "two_inputs":
            up = laid(values(gate.shape, dtype, 15), aligned)
            yield number, gate, up
            yield number, up, gate
        else:
            shape = (*gate.shape[:-1], 2 * gate.shape[-1])
            for apart in (False, True):
                yield number, laid(values(shape, dtype, 15), aligned, apart)


def rope_calls(variant, head, dtype, cos_dtype):
    for seq, heads, cos_batch, transposed in ((7, 3, 2, True), (33, 4, 1, True), (5, 2, 2, False)):
        q = heads_first((2, heads, seq, head), dtype, 1, transposed)
        k = heads_first((2, 1, seq, head), dtype, 2, transposed)
        cos, sin = tables(variant, cos_batch, seq, head, cos_dtype)
        yield rope_arguments(variant, q, k, cos, sin)
        yield rope_arguments(variant, k, q, shifted(cos), sin)
        yield rope_arguments(variant, shifted(q), k, cos, shifted(sin))
        yield rope_arguments(variant, q, shifted(k), cos, sin)
        yield rope_arguments(variant, shifted(q), k, cos, sin)
    for aligned in (True, False):
        wide = laid(values((1, 9, 201, head), dtype, 3), aligned)  # more than there are blocks
        yield rope_arguments(variant, wide, wide, *tables(variant, 1, 201, head, cos_dtype))
        wide = laid(
            values((1, 1, 128, head), dtype, 3), aligned
        )  # as many as threads, or a multiple
        yield rope_arguments(variant, wide, wide, *tables(variant, 1, 128, head, cos_dtype))
    for aligned in (True, False):  # rows found through one dimension up to four, of q or of k
        for shape in ((1, 1, 6, head), (1, 1, 1, head), (1, 3, 6, head), (3, 2, 6, head)):
            x = laid(values(shape, dtype, 4), aligned, apart=True)
            y = laid(values(x.shape, dtype, 5), aligned)
            cos, sin = (values((x.shape[0], *x.shape[2:]), cos_dtype, i) for i in (6, 7))
            yield rope_arguments(variant, x, y, cos, sin)
            yield rope_arguments(variant, y, x, cos[:1], sin)
        x = laid(values((2, 3, 2, 5, head), dtype, 4), aligned, apart=True)
        y = laid(values(x.shape, dtype, 5), aligned)
        cos, sin = (values((2, 2, 5, head), cos_dtype, i) for i in (6, 7))
        yield rope_arguments(variant, x, y, cos, sin)
        yield rope_arguments(variant, y, x, cos[:1], sin)


def norm_rope_calls(variant, head, dtype, cos_dtype):
    dtypes = (dtype, cos_dtype, dtype)
    for shape, kv_heads in (((2, 7, 3, head), 1), ((1, 33, 5, head), 2), ((3, 1, 2, head), 2)):
        for make in (exact, values):
            a = norm_rope_arguments(variant, NORMS[0], shape, kv_heads, dtypes, make)
            a[3] = a[6] = 1e-3
            yield a
            a = list(a)
            a[0], a[8], a[9] = a[0] * 1e-2, a[8][:1], a[9][:1]
            a[6] = 1e-2
            yield a
            yield [shifted(t) if i in (1, 2, 9) else t for i, t in enumerate(a)]
    for aligned in (True, False):
        for shape, kv_heads in (((2, 6, 4, head), 3), ((1, 1, 1, head), 1), ((1, 6, 3, head), 2)):
            a = norm_rope_arguments(variant, NORMS[0], shape, kv_heads, dtypes, values)
            q, k = (laid(t, aligned, apart=True) for t in a[:2])
            yield [q, k, *a[2:]]
            yield [q, *a[1:8], a[8][:1], a[9][:1], a[10]]
            yield [a[0], k, *a[2:]]
            swapped = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k))
            yield [*(laid(t, aligned, apart=True) for t in swapped), *a[2:]]


@dataclass
class Subject:
    """One kernel: an op's reference, and the arguments of the calls that it serves."""

    name: str
    op: str
    variant: str
    make: Callable[[], Iterator]
    calls: list = field(default_factory=list)  # (arguments, what the reference gives)
    text: str = ""
    lines: frozenset = frozenset()  # those that any call runs
    known: list = field(default_factory=list)  # what run() is to find

    def prepare(self) -> None:
        for arguments in self.make():
            self.calls.append((arguments, holding.reference(self.op, self.variant, *arguments)))


NORM, ADD = ("rms_norm", "cast_then_weight"), ("add_rms_norm", "add_then_norm")
LAYER, L2 = ("add_layer_norm", "add_then_norm"), ("l2_norm", "by_rsqrt_in_float32")
SUBJECTS = [
    Subject("norm of 2048", *NORM, lambda: norm_calls(2048, BF16, BF16)),
    Subject("norm of 72", *NORM, lambda: norm_calls(72, F32, F16)),
    Subject("norm of 41", *NORM, lambda: norm_calls(41, F32, F32, aligned=(False,))),
    Subject("norm of 16392", *NORM, lambda: few(norm_calls(16392, F16, F16))),
    Subject("add and norm of 1000", *ADD, lambda: add_norm_calls(1000, BF16)),
    Subject("add and layer norm of 1000", *LAYER, lambda: layer_norm_calls(1000, BF16)),
    Subject(
        "gated norm of 72",
        "gated_rms_norm",
        "cast_weight_then_gate",
        lambda: gated_calls("cast_weight_then_gate", 72, BF16),
    ),
    Subject(
        "gate and norm of groups",
        "gated_rms_norm",
        "gate_then_norm_of_groups",
        lambda: chain.from_iterable(
            gated_calls("gate_then_norm_of_groups", 120, F16, groups) for groups in (1, 3, 8, 120)
        ),
    ),
    Subject("l2 norm of 136", *L2, lambda: l2_calls(L2[1], 136, BF16)),
    Subject("softcap", "softcap", "scaled", lambda: softcap_calls(BF16)),
    Subject("silu", "act_mul", "two_inputs", lambda: act_calls("two_inputs", "SILU", 24, BF16)),
    Subject(
        "gelu, interleaved",
        "act_mul",
        "packed_interleaved",
        lambda: act_calls("packed_interleaved", "GELU_TANH", 20, F16),
    ),
    Subject("rope", "rope", "half_both", lambda: rope_calls("half_both", 80, BF16, BF16)),
    Subject("rope of pairs", "rope", "pairs_both", lambda: rope_calls("pairs_both", 40, F32, F32)),
    Subject(
        "norm and rope",
        "qk_norm_rope",
        "norm_transpose_rope",
        lambda: norm_rope_calls("norm_transpose_rope", 80, BF16, F32),
    ),
]


def few(calls):
    """Rows too wide for many of them; found through four dimensions all the same."""
    x = None
    for x, *rest in calls:
        if x.numel() <= 15 * x.shape[-1]:
            yield x, *rest
    for aligned in (True, False):
        rows = exact((2, 2, 2, 2, x.shape[-1]), x.dtype, 1)
        yield laid(rows, aligned, apart=True), *rest


# ------------------------------------------------------------------ variations of a program
def variations(text: str) -> Iterator[str]:
    """The program, and what stands in it for more rows than any test can have: 64-bit division, which
    it takes from 2^31 rows on, and then only of numbers that need it.
    """
    yield text
    wide = re.sub(r"(setp\.gt\.s64 \t?%p\d+, %rd\d+), 2147483647", r"\1, -1", text)
    yield wide
    yield wide.replace(", -4294967296;", ", -1;")


# ------------------------------------------------------------------ one mutant
def in_child(work: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """What `work` gives in a process of its own; DIED if it crashes or does not end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(SECONDS)
        status, words = CAUGHT, ""
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            status, words = work()
        except BaseException as error:  # whatever it is, the mutant did it
            words = f"{type(error).__name__}: {error}"
        with os.fdopen(writing, "w", errors="replace") as pipe:
            pipe.write(words)
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        words = pipe.read().decode(errors="replace")
    _, how = os.waitpid(child, 0)
    if os.WIFSIGNALED(how):
        return DIED, signal.Signals(os.WTERMSIG(how)).name
    return os.WEXITSTATUS(how), words


def load(subject: Subject) -> str:
    """Loads the kernel by its first call; its PTX."""
    simulated.configure(sms=1)
    arguments, wanted = subject.calls[0]
    hold(subject.op, subject.variant, *arguments, wanted=wanted)
    assert len(simulated.programs()) == 1
    return simulated.programs()[0]


def run(subject: Subject, text: str, known: list | None = None) -> tuple[int, str]:
    """As `known`, what the kernel itself gave for each call, says: no more elements may differ from
    the reference, and as many bytes must move in as many accesses. Gives that of this text, and the
    lines that ran.
    """
    load(subject)
    simulated.configure(steps=STEPS)
    lines, figures = set(), []
    for version in dict.fromkeys(variations(text)):
        if why := simulated.replace_program(0, version):
            return INVALID, why
        for arguments, wanted in subject.calls:
            off = sum(Seen.off.values())
            hold(subject.op, subject.variant, *arguments, wanted=wanted)
            off = sum(Seen.off.values()) - off
            moved = [simulated.report()["counters"][name] for name in COUNTERS]
            figures.append([off, moved])
            lines |= simulated.executed_lines()
            if known and (off > known[len(figures) - 1][0] or moved != known[len(figures) - 1][1]):
                return CAUGHT, f"{figures[-1]} instead of {known[len(figures) - 1]}"
    assert len(simulated.programs()) == 1, "another kernel served"
    return SURVIVED, json.dumps([sorted(lines), figures])


# ------------------------------------------------------------------ the sample
def sample(count: int, seed: int) -> list[tuple[Subject, Mutant]]:
    """One mutant of each kernel and operator after the other, until there are enough; of lines that
    run.
    """
    chance = random.Random(seed)
    groups: dict[tuple[str, str], list[tuple[Subject, Mutant]]] = {}
    for subject in SUBJECTS:
        for mutant in mutants(subject.text):
            if mutant.line not in subject.lines:
                continue
            groups.setdefault((subject.name, mutant.operator), []).append((subject, mutant))
    for group in groups.values():
        chance.shuffle(group)
    order = list(groups.values())
    chance.shuffle(order)
    rounds = max(map(len, order))
    one_by_one = [group[i] for i in range(rounds) for group in order if i < len(group)]
    return one_by_one[: 2 * count]  # as many again for those that are no programs


def main(count: int, seed: int) -> None:
    torch.set_num_threads(1)
    for subject in SUBJECTS:
        subject.prepare()
        status, subject.text = in_child(lambda s=subject: (SURVIVED, load(s)))
        assert status == SURVIVED, subject.text
        status, why = in_child(lambda s=subject: run(s, s.text))
        assert status == SURVIVED, f"{subject.name}: {why}"
        lines, subject.known = json.loads(why)
        subject.lines = frozenset(lines)
    results = {SURVIVED: [], CAUGHT: [], DIED: [], INVALID: []}
    for subject, mutant in sample(count, seed):
        status, why = in_child(lambda s=subject, m=mutant: run(s, m.apply(s.text), s.known))
        results[status].append({"kernel": subject.name, "mutant": str(mutant), "how": why})
        if status != INVALID and sum(len(v) for k, v in results.items() if k != INVALID) == count:
            break
    names = {SURVIVED: "survived", CAUGHT: "caught", DIED: "died", INVALID: "invalid"}
    json.dump({names[k]: v for k, v in results.items()}, sys.stdout, indent=1)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]) if len(sys.argv) > 1 else (COUNT, SEED))
