"""Generated modeling-like programs, rewritten, proved and run beside their originals.

    python tests/fuzz/programs.py --seconds 3600 [--seed N] [--out DIR]

A program is a module's forward: blocks that the rules know in random spellings, inside branches,
loops over numbers and layers, try, with and match, in methods and functions of their own, with
writes, aliases, rebinding, defaults, closures and early returns between their parts. Original and result must compute the same bits, log
the same effects, raise the same exceptions, and be equal to `verify --symbolic`. A program that
fails is made smaller line by line and written to DIR. What docs/NUMERICS.md lists under "Errors"
and "Layout of mixed operands" is found too, about once in ten thousand programs. Extends the blocks and changes of
tests/edge/test_properties.py; the seed alone says which program it is.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from pathlib import Path

EDGE = Path(__file__).resolve().parents[1] / "edge"
sys.path.insert(0, str(EDGE))

import torch  # noqa: E402
from edge_driver import (  # noqa: E402
    Fault,
    check_bytes,
    check_runs,
    check_second_run,
    find_binary,
    rewrite_with_binary,
)
from test_properties import CHANGES, HEAD, UNRELATED  # noqa: E402

SECONDS = 20  # for one program, original and result
MORE = """
        self.packed = nn.Linear(8, 16)
        self.drop = nn.Dropout(0.5)
        self.post = nn.LayerNorm(8)
        self.scale = 0.7
        self.cap = 3.0
        self.qkv = nn.Linear(8, 24)
        self.wide = Norm(16)
        self.gated = Gated()
        self.layers = nn.ModuleList([Layer(8), Layer(8, scale=0.5)])
"""
CLASSES = """\
class Gated(Norm):
    def forward(self, x, gate=None):
        dtype = x.dtype
        x = x.to(torch.float32)
        if gate is not None:
            x = x * F.silu(gate.to(torch.float32))
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Layer(nn.Module):
    def __init__(self, width, scale=1.0):
        super().__init__()
        self.norm, self.post = Norm(width), Norm(width)
        self.mixer = nn.Linear(width, width)
        self.scale = scale

    def forward(self, x, residual=None):
        residual = x if residual is None else residual + x
        x = self.mixer(self.norm(residual))
        residual = residual + x * self.scale
        return self.post(residual), residual


"""
BLOCKS = (
    "n = self.norm({a})",
    "n = self.post({a} + {b})",
    "n = {a}.float()\nm = n.pow(2).mean(-1, keepdim=True)\nn = n * torch.rsqrt(m + self.eps)\n"
    "n = self.weight * n.to({a}.dtype)",
    "t = {a}.dtype\nn = {a}.to(torch.float32)\nm = (n * n).mean(dim=-1, keepdim=True)\n"
    "n = (n * torch.rsqrt(m + self.eps)).to(t) * self.weight",
    "s = {a} + {b}\nn = self.norm(s)",
    "{a} = {b} + {a}\ns = {a}\n{a} = self.norm({a})",
    "g = self.gate({a})\nu = self.up({a})\nn = self.down(self.act(g) * u)",
    "n = self.down(F.silu(self.gate({a})) * self.up({a}))",
    "u = self.up({a})\nn = u * self.act(self.gate({a}))",
    "g, u = self.packed({a}).chunk(2, dim=-1)\nn = self.act(g) * u",
    "p = self.packed({a})\nn = F.gelu(p[..., :8], approximate='tanh') * p[..., 8:]",
    "p = self.packed({a})\ng, u = p.split(8, dim=-1)\nn = F.silu(g)\nn = n * u",
    "q = self.q({a}).view(2, 8, -1, 8).transpose(1, 2)\nk = self.k({a}).view(2, 8, -1, 8).transpose(1, 2)\n"
    "w = self.v({a})\nq, k = apply_rotary_pos_emb(q, k, cos, sin)\nn = q.sum(1) + k.sum(1)\ns = w",
    "q = self.q_norm(self.q({a}).view(2, 8, -1, 8)).transpose(1, 2)\n"
    "k = self.k_norm(self.k({a}).view(2, 8, -1, 8)).transpose(1, 2)\n"
    "q, k = apply_rotary_pos_emb(q, k, cos, sin)\ns = q.sum(1)\nn = k.sum(1)",
    "q = self.q({a}).view(2, 8, -1, 8).transpose(1, 2)\nc = cos.unsqueeze(1)\n"
    "q = (q * c) + (rotate_half(q) * sin.unsqueeze(1))\nn = q.mean(1)",
    "g = self.k({a})\ns = self.v({a})\nn = g - s",
    "n = {a} if self.flag else self.v({a})",
    "n = self.drop({a}) + {b}",
    "n = {a} * self.scale + {b}",
    "if (n := self.norm({a})).sum() > 0:\n    n = n + {b}",
    "n = {a} / self.cap\nn = torch.tanh(n)\nn = n * self.cap",
    "n = self.cap * torch.tanh(({a} + {b}) / self.cap)",
    "n = {a} * torch.rsqrt({a}.pow(2).sum(-1, keepdim=True) + 1e-6)",
    "n = F.normalize({a}, dim=-1) * self.scale",
    "s = {a} - {b}\nn = s / s.norm(dim=-1, keepdim=True)",
    "n = self.gated({a}, {b})",
    "m = self.wide(self.packed({a}))\nn, s = m.chunk(2, dim=-1)",
    "q, k, w = self.qkv({a}).chunk(3, dim=-1)\nn = self.q_norm(q)\ns = self.k_norm(k) + w",
    "q, k, w = self.qkv({a}).split(8, dim=-1)\nn = F.silu(q) * k\ns = w",
    "q, k, w = self.qkv({a}).view(2, 8, 3, 8).unbind(2)\nn = q * w\ns = self.norm(k)",
)
CONDITIONS = (
    "self.flag", "{a}.sum() > 0", "{a}.mean() > {b}.mean()", "len(LOG) % 2", "{a} is {b}",
    "not self.flag", "{a}.shape[0] == 2 and {b}.sum() < 1", "cos is not None",
)  # fmt: skip


class Program:
    """Writes one; `live` are names that surely hold a tensor of the hidden size."""

    def __init__(self, seed: int) -> None:
        self.random, self.made = random.Random(seed), 0
        self.helpers: list[str] = []  # methods of the class
        self.functions: list[str] = []  # of the module
        self.live = ["x", "y"]

    def fresh(self) -> str:
        self.made += 1
        return self.random.choice(("h", "residual", "value_", "gate", "t")) + str(self.made)

    def fill(self, text: str) -> list[str]:
        """With live names, and either fresh names or names used before for what it binds."""
        r, names = self.random, {}

        def local(found):
            word = found[1]
            if word not in names:
                again = [n for n in self.live if n not in names.values()]
                names[word] = r.choice(again) if again and r.random() < 0.3 else self.fresh()
            return names[word]

        picked = {"a": r.choice(self.live), "b": r.choice(self.live)}
        out = []
        for line in text.splitlines():
            line = re.sub(r"(?<![\w.'])([gksnmtpquwc])(?![\w('])", local, line)
            line = re.sub(r"\{([ab])\}", lambda m: picked[m[1]], line)
            out.append(line)
        self.bound = [names[w] for w in ("n", "s") if w in names and names[w] not in self.live]
        return out

    def change(self, table) -> list[str]:
        r = self.random
        names = {
            "tensor": r.choice(self.live), "other": r.choice(self.live),
            "new": self.fresh(), "new2": self.fresh(),
        }  # fmt: skip
        return re.sub(r"\{(\w+)\}", lambda m: names[m[1]], r.choice(table)).splitlines()

    def noise(self) -> list[str]:
        r = self.random.random()
        return self.change(CHANGES if r < 0.15 else UNRELATED) if r < 0.4 else []

    def block(self) -> list[str]:
        out = []
        for line in self.fill(self.random.choice(BLOCKS)):
            if not line.startswith(" "):
                out += self.noise()
            out.append(line)
        self.live += self.bound  # not before: a name that is read unbound may be bound earlier
        return out

    def suite(self, depth: int, size: int) -> list[str]:
        out = []
        for _ in range(size):
            out += self.compound(depth) if depth and self.random.random() < 0.35 else self.block()
        return out or ["pass"]

    def scoped(self, depth: int, size: int) -> list[str]:
        """Names bound inside are not taken for bound outside."""
        before = list(self.live)
        out = self.suite(depth, size)
        self.live = before
        return ["    " + line for line in out]

    def condition(self) -> str:
        names = {"a": self.random.choice(self.live), "b": self.random.choice(self.live)}
        return re.sub(r"\{([ab])\}", lambda m: names[m[1]], self.random.choice(CONDITIONS))

    def compound(self, depth: int) -> list[str]:
        kind = self.random.choice(
            (
                "branch branch loop while with try match method function closure exit "
                "sums layers default"
            ).split()
        )
        return getattr(self, "make_" + kind)(depth - 1)

    def make_branch(self, depth):
        out = [f"if {self.condition()}:", *self.scoped(depth, 1)]
        if self.random.random() < 0.3:
            out += [f"elif {self.condition()}:", *self.scoped(depth, 1)]
        if self.random.random() < 0.5:
            out += ["else:", *self.scoped(depth, 1)]
        return out

    def make_loop(self, depth):
        way = self.random.choice(("range(2)", "(1, 2)", "list(LOG)[:2]"))
        out = [f"for i{self.made} in {way}:", *self.scoped(depth, 1)]
        if self.random.random() < 0.3:
            out.append(f"    if {self.condition()}:")
            out.append("        " + self.random.choice(("break", "continue")))
            out += self.scoped(0, 1)
        return out

    def make_while(self, depth):
        count = self.fresh()
        return [f"{count} = 0", f"while {count} < 2:", f"    {count} += 1", *self.scoped(depth, 1)]

    def make_with(self, depth):
        what = self.random.choice(("no_grad()", "autocast('cpu', enabled=False)"))
        return [f"with torch.{what}:", *self.scoped(depth, 2)]

    def make_try(self, depth):
        out = ["try:", *self.scoped(depth, 1)]
        if self.random.random() < 0.5:
            out.append("    raise ValueError(len(LOG))")
        out += ["except (ValueError, NameError) as error:", "    LOG.append(repr(error))"]
        out += self.scoped(0, 1)
        return out + (["finally:", *self.scoped(0, 1)] if self.random.random() < 0.4 else [])

    def make_match(self, depth):
        out = ["match len(LOG) % 3:", "    case 0:"]
        out += ["    " + line for line in self.scoped(depth, 1)]
        return [*out, "    case _:", *("    " + line for line in self.scoped(0, 1))]

    def inner(self, parameters: list[str], depth: int) -> list[str]:
        before, self.live = self.live, list(parameters)
        body = self.suite(depth, self.random.choice((1, 1, 2)))
        result = ", ".join([self.live[-1], self.random.choice(self.live)])
        self.live = before
        return [*body, f"return {result}"]

    def call(self, callee: str, arguments: list[str]) -> list[str]:
        names = [self.fresh(), self.fresh()]
        self.live += names
        return [f"{', '.join(names)} = {callee}({', '.join(arguments)})"]

    def arguments(self) -> list[str]:
        return [self.random.choice(self.live), self.random.choice(self.live)]

    def make_method(self, depth):
        name = "part_" + self.fresh()
        body = self.inner(["a1", "b1"], 0 if self.random.random() < 0.7 else depth)
        self.helpers.append(f"def {name}(self, a1, b1, cos, sin):\n" + indented(body))
        return self.call(f"self.{name}", [*self.arguments(), "cos", "sin"])

    def make_function(self, depth):
        name = "part_" + self.fresh()
        body = self.inner(["a1", "b1"], 0)
        self.functions.append(f"def {name}(self, a1, b1, cos, sin):\n" + indented(body))
        return self.call(name, ["self", *self.arguments(), "cos", "sin"])

    def make_closure(self, depth):
        name, held = "inner_" + self.fresh(), self.random.choice(self.live)
        body = self.inner(["a1", held], depth if self.random.random() < 0.3 else 0)
        if any(re.match(rf"\s*{held}\b[^=]*(?<![=!<>])=(?!=)", line) for line in body):
            return self.block()
        definition = [f"def {name}(a1):", *("    " + line for line in body)]
        return [*definition, *self.noise(), *self.call(name, [self.random.choice(self.live)])]

    def make_sums(self, depth):
        """A sum before a branch that may make another one, and a norm behind both."""
        total, normed = self.fresh(), self.fresh()
        a, b = self.arguments()
        norm = self.random.choice(("self.norm", "self.post", "self.layers[0].norm"))
        out = [f"{total} = {a} + {b}", *self.noise(), f"if {self.condition()}:"]
        before = list(self.live)
        self.live.append(total)
        inside = [*self.block(), f"{total} = {total} + {self.random.choice(self.live)}"]
        self.live = [*before, total, normed]
        return [*out, *("    " + line for line in inside), f"{normed} = {norm}({total})"]

    def make_layers(self, depth):
        """The residual stream over layers that are modules, or whose parts are called here."""
        layer, value, residual = "layer" + self.fresh(), self.fresh(), self.fresh()
        a, b = self.arguments()
        body = self.random.choice(
            (
                [f"{value}, {residual} = {layer}({value}, {residual})"],
                [f"{value} = {layer}.norm({value})", f"{value} = {layer}.mixer({value})"],
                [f"{residual} = {residual} + {value}", f"{value} = {layer}.norm({residual})"],
            )
        )
        if self.random.random() < 0.5:
            body = [f"{residual} = {value}", *body, f"{value} = {residual} + {value}"]
        out = [f"{value} = {a}", f"{residual} = {b}", f"for {layer} in self.layers:"]
        for line in body:
            out += ["    " + noise for noise in self.noise()] + ["    " + line]
        self.live += [value, residual]
        return out

    def make_default(self, depth):
        """Parameters that are left out, or named, and then are another one's value."""
        name = "part_" + self.fresh()
        body = ["b1 = a1 if b1 is None else b1", *self.inner(["a1", "b1"], 0)]
        self.helpers.append(
            f"def {name}(self, a1, b1=None, *, cos=None, sin=None):\n" + indented(body)
        )
        a, b = self.arguments()
        given = self.random.choice(([a], [f"b1={b}", f"a1={a}"], [a, b]))
        return self.call(f"self.{name}", [*given, "cos=cos", "sin=sin"])

    def make_exit(self, depth):
        what = self.random.choice(
            (f"return {self.random.choice(self.live)}", "raise KeyError(len(LOG))", "LOG.append(1)")
        )
        return [f"if {self.condition()}:", f"    {what}"]

    def text(self) -> str:
        body = self.suite(2, self.random.randint(1, 4))
        results = [self.random.choice(self.live) for _ in range(2)] + self.live[-2:]
        body.append("return " + ", ".join(dict.fromkeys(results)))
        return module(body, self.helpers, self.functions)


def indented(lines: list[str]) -> str:
    return textwrap.indent("\n".join(lines), "    ") + "\n"


def module(body: list[str], helpers: list[str], functions: list[str]) -> str:
    inside = textwrap.indent("\n".join(body), " " * 8) + "\n\n"
    inside += "".join(textwrap.indent(h, "    ") + "\n" for h in helpers) + "\n"
    shape = "(2, 8, 8)"
    return (
        HEAD.replace("        self.norm = Norm(8)\n", "        self.norm = Norm(8)" + MORE, 1)
        .replace("class Block", CLASSES + "\n".join([*functions, "", "class Block"]), 1)
        .replace("PARAMETERS", "x, y, cos, sin")
        .replace("BODY\n", inside)
        .replace("SHAPES", f"[{shape}, {shape}, {shape}, {shape}]")
        .replace("SHAPE", "shape")
    )


class Late(Exception):
    pass


def check(text: str, dtype=torch.float32) -> str | None:
    """None: all is well. A program that Python does not take, or that does not end, is no fault."""
    data = text.encode()
    if not is_python(text):
        return None

    def late(_signal, _frame):
        raise Late

    was = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        return fault_of(data, dtype)
    except Late:
        return None
    except Fault as fault:
        return str(fault)
    except Exception:
        return traceback.format_exc(limit=-3)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, was)


def fault_of(data: bytes, dtype) -> str | None:
    out = rewrite_with_binary(data)
    if out.code:
        return f"exit status {out.code}: {out.stderr}"
    check_bytes(data, out)
    if out.text == data:
        return None
    check_second_run(out, rewrite_with_binary(out.text))
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "modeling_edge.py"), Path(folder, "rewritten.py")
        old.write_bytes(data)
        new.write_bytes(out.text)
        command = [find_binary(), "verify", "--symbolic", "--against", str(old), str(new)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return f"not proved: {done.stdout}{done.stderr}"
    check_runs(data, out.text, dtype)
    return None


def is_python(text: str) -> bool:
    try:
        compile(text, "generated", "exec")
    except SyntaxError:
        return False
    return True


def smaller(text: str, failing, seconds: float = 120) -> str:
    """Drops statements while the program still fails; the whole of a compound one first."""
    end = time.monotonic() + seconds
    done = False
    while not done and time.monotonic() < end:
        done = True
        spans = [
            (n.lineno - 1, n.end_lineno)
            for n in ast.walk(ast.parse(text))
            if isinstance(n, ast.stmt) and not isinstance(n, ast.ClassDef)
        ]
        for first, last in sorted(set(spans), key=lambda s: s[0] - s[1]):
            lines = text.split("\n")
            without = "\n".join(lines[:first] + lines[last:])
            if time.monotonic() < end and is_python(without) and failing(without):
                text, done = without, False
                break
    return text


def alike(fault: str, dtype):
    """Whether a program fails in the same way."""
    kind = fault.split(":")[0]
    return lambda text: (check(text, dtype) or "").split(":")[0] == kind


def run(seeds, seconds: float, out: Path | None = None) -> tuple[int, dict[int, str]]:
    """How many programs ran, and what failed by seed."""
    end, count, found = time.monotonic() + seconds, 0, {}
    for seed in seeds:
        if time.monotonic() > end:
            break
        text = Program(seed).text()
        dtype = (torch.float32, torch.bfloat16)[seed % 2]
        count += 1
        fault = check(text, dtype)
        if fault is None:
            continue
        found[seed] = fault
        if out:
            least = smaller(text, alike(fault, dtype))
            comment = textwrap.indent(f"seed {seed}, {dtype}: {check(least, dtype)}", "# ")
            (out / f"program_{seed}.py").write_text(f"{comment}\n{least}")
    return count, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--out", type=Path, default=Path("findings"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    seeds = iter(range(options.seed, 1 << 62))
    count, found = run(seeds, options.seconds, options.out)
    for seed, fault in found.items():
        print(f"seed {seed}: {fault}")
    print(f"{count} programs from seed {options.seed} on, {len(found)} faults")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
