"""Faults for a kernel's PTX, made from a list of operators: one line of the text changed, as a slip
in the template, in a formula or in a compiler would change it. Knows PTX, no kernel.

An operator is a function of one instruction that yields what may stand in its place; "" leaves it
out. A mutant is one operator on one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_LINE = re.compile(
    r"\t(?P<guard>@!?%p\d+ )?\s*(?P<code>[a-z]\w*(?:\.\w+|::\w+)*)\s*(?P<rest>[^;]*);$"
)
_ADDRESS = re.compile(r"\[(?P<base>[%\w]+)(?:\+(?P<offset>-?\d+))?\]")
_LABEL = re.compile(r"^(\$\w+):")
OTHERS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
OTHERS |= {"lo": "ls", "ls": "lo", "hi": "hs", "hs": "hi"}
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


@dataclass
class Instruction:
    guard: str  # "@%p3 ", or ""
    code: str  # "ld.global.v4.u32"
    operands: list[str]
    program: Program = field(repr=False)

    @property
    def parts(self) -> list[str]:
        return self.code.split(".")

    def text(self, code=None, operands=None, guard=None) -> str:
        rest = ", ".join(self.operands if operands is None else operands)
        return f"\t{self.guard if guard is None else guard}{code or self.code} {rest};"


@dataclass
class Program:
    """A PTX text by lines, and which instruction makes each register."""

    lines: list[str]
    made: dict[str, Instruction] = field(default_factory=dict)  # of registers made once
    code: dict[int, Instruction] = field(default_factory=dict)  # by line

    @staticmethod
    def read(text: str) -> Program:
        program = Program(text.split("\n"))
        times: dict[str, int] = {}
        for number, line in enumerate(program.lines):
            if match := _LINE.match(line):
                operands = [o.strip() for o in _split(match["rest"])]
                one = Instruction(match["guard"] or "", match["code"], operands, program)
                program.code[number] = one
                for name in re.findall(r"%\w+", operands[0]) if operands else []:
                    times[name] = times.get(name, 0) + 1
                    program.made[name] = one
        program.made = {name: i for name, i in program.made.items() if times[name] == 1}
        return program

    def is_zero(self, operand: str) -> bool:
        made = self.made.get(operand)
        return made is not None and made.code == "mov.f32" and made.operands[1] == "0f00000000"

    def chooses_division(self, i: Instruction) -> bool:
        """Part of a choice between two divisions that give the same: what fits in 32 bits is divided
        there. No slip in it shows below 2^31 rows, and above only as slowness or in one direction.
        """
        if i.code == "setp.gt.s64":
            return i.operands[2] == "2147483647"
        if i.code == "and.b64":
            return i.operands[2] == "-4294967296"
        if i.code == "or.b64":
            users = (u for u in self.code.values() if i.operands[0] in u.operands[1:])
            return any(self.chooses_division(u) for u in users)
        if i.code == "setp.eq.s64" or i.guard:
            name = i.guard.strip("@! ") if i.guard else i.operands[1]
            return name in self.made and self.chooses_division(self.made[name])
        return False


def _split(text: str) -> list[str]:
    """At commas outside {} and []."""
    return [o for o in re.split(r",(?![^{]*\})(?![^\[]*\])", text) if o.strip()]


# ------------------------------------------------------------------ operators
Operator = Callable[[Instruction], Iterator[str]]
OPERATORS: dict[str, Operator] = {}


def operator(function: Operator) -> Operator:
    OPERATORS[function.__name__] = function
    return function


@operator
def drop_barrier(i):
    if i.parts[0] in ("bar", "barrier"):
        yield ""


@operator
def move_address(i):
    """The next element, or the one before: of data, of shared memory, of the kernel's argument."""
    if i.parts[0] not in ("ld", "st"):
        return
    size = BYTES[re.sub(r"\D", "", i.parts[-1])] * (4 if "v4" in i.parts else 1)
    size *= 2 if "v2" in i.parts else 1
    at = 0 if i.parts[0] == "st" else 1
    match = _ADDRESS.match(i.operands[at])
    for by in (size, -size) if match else ():
        operands = list(i.operands)
        operands[at] = f"[{match['base']}+{int(match['offset'] or 0) + by}]"
        yield i.text(operands=operands)


@operator
def change_bound(i):
    """< to <=, and so on."""
    if i.parts[0] == "setp":
        yield i.text(code=i.code.replace(f".{i.parts[1]}.", f".{OTHERS[i.parts[1]]}.", 1))


@operator
def change_shuffle(i):
    if i.parts[0] == "shfl":
        for mode in ("down", "up"):
            yield i.text(code=i.code.replace("bfly", mode))


@operator
def change_constant(i):
    """An integer by one, a float by 2^-13 of it, 0 to 1."""
    if i.parts[0] in ("ld", "st", "bar", "bra"):
        return
    for at, operand in enumerate(i.operands[1:], 1):
        operands = list(i.operands)
        if re.fullmatch(r"-?\d+", operand):
            operands[at] = str(int(operand) + 1)
            yield i.text(operands=operands)
        elif re.fullmatch(r"0f[0-9A-F]{8}", operand):
            number = int(operand[2:], 16)
            operands[at] = f"0f{number ^ 0x400 if number else 0x3F800000:08X}"
            yield i.text(operands=operands)


@operator
def swap_rounding(i):
    if i.parts[0] == "cvt" and "rn" in i.parts:
        yield i.text(code=i.code.replace(".rn.", ".rz."))


@operator
def drop_rounding(i):
    """A value that is rounded to 16 bits and back goes on as it was."""
    if i.code == "mov.b32" and i.operands[0].startswith("%f"):
        half = i.program.made.get(i.operands[1])
        if half and half.code in ("shl.b32", "and.b32"):
            whole = i.program.made.get(half.operands[1])
            if whole and whole.parts[0] == "cvt" and whole.parts[2][-2:] == "x2":
                yield i.text("mov.f32", [i.operands[0], whole.operands[2 - (half.code[0] == "a")]])
    if i.code == "cvt.f32.f16":
        half = i.program.made.get(i.operands[1])
        source = i.program.made.get(half.operands[-1]) if half else None
        if source and source.parts[0] == "cvt" and len(source.operands) == 3:
            yield i.text("mov.f32", [i.operands[0], source.operands[2]])


@operator
def drop_upcast(i):
    """The 16 bits are taken for a float as they are."""
    if i.code == "shl.b32" and i.operands[2] == "16":
        yield i.text("mov.b32", i.operands[:2])
    if i.code == "and.b32" and i.operands[2] == "-65536":
        yield i.text("mov.b32", i.operands[:2])
    if i.code == "cvt.f32.f16":
        yield i.text("mov.f32", [i.operands[0], "0f3F800000"])


@operator
def swap_halves(i):
    if i.parts[0] == "cvt" and len(i.operands) == 3:
        yield i.text(operands=[i.operands[0], i.operands[2], i.operands[1]])
    for at, operand in enumerate(i.operands):
        if operand.startswith("{") and i.parts[0] in ("mov", "ld", "st"):
            operands, inner = list(i.operands), operand.strip("{}").split(",")
            inner[0], inner[1] = inner[1].strip(), inner[0].strip()
            operands[at] = "{" + ", ".join(p.strip() for p in inner) + "}"
            yield i.text(operands=operands)


@operator
def swap_add_sub(i):
    other = {"add": "sub", "sub": "add"}.get(i.parts[0])
    if other:
        yield i.text(code=i.code.replace(i.parts[0], other, 1))


@operator
def swap_operands(i):
    same = i.parts[:2] in (["setp", "eq"], ["setp", "ne"])
    if i.parts[0] in ("sub", "div", "setp") and len(i.operands) == 3 and not same:
        yield i.text(operands=[i.operands[0], i.operands[2], i.operands[1]])
    if i.parts[0] == "selp":
        yield i.text(operands=[i.operands[0], i.operands[2], i.operands[1], i.operands[3]])


@operator
def drop_addend(i):
    """A sum that starts anew, a shift that is not taken off."""
    if i.parts[0] == "fma" and not i.program.is_zero(i.operands[3]):
        yield i.text(f"mul.{'.'.join(i.parts[1:])}", i.operands[:3])
    if i.parts[0] in ("add", "sub") and len(i.operands) == 3:
        yield i.text(
            f"mov.{'b' if i.parts[-1][0] in 'us' else 'f'}{i.parts[-1][1:]}", i.operands[:2]
        )


@operator
def drop_sign(i):
    if i.parts[0] in ("neg", "abs"):
        yield i.text(f"mov.{i.parts[-1]}")


@operator
def change_branch(i):
    """Always, never, or the other way."""
    if i.guard:
        yield i.text(guard="")
        yield i.text(
            guard=i.guard.replace("!", "") if "!" in i.guard else i.guard.replace("@", "@!")
        )
        if i.parts[0] == "bra":
            yield ""


@operator
def other_register(i):
    """The last source is the register numbered before it."""
    if i.operands and i.parts[0] not in ("bra", "ret", "bar"):
        match = re.fullmatch(r"(%(?:f|r|rd|p|rs))(\d+)", i.operands[-1])
        if match and len(i.operands) > 1 and int(match[2]) > 1:
            yield i.text(operands=[*i.operands[:-1], f"{match[1]}{int(match[2]) - 1}"])


@operator
def swap_min_max(i):
    other = {"min": "max", "max": "min"}.get(i.parts[0])
    if other:
        yield i.text(code=i.code.replace(i.parts[0], other, 1))


@operator
def high_product(i):
    if i.code.startswith(("mul.lo", "mad.lo")):
        yield i.text(code=i.code.replace(".lo", ".hi", 1))


@operator
def change_shift(i):
    if i.parts[0] in ("shl", "shr") and i.operands[-1].isdigit():
        for by in (1, -1):
            yield i.text(operands=[*i.operands[:-1], str(int(i.operands[-1]) + by)])


@operator
def change_bits(i):
    other = {"and": "or", "or": "and", "xor": "or", "not": "mov"}.get(i.parts[0])
    if other:
        yield i.text(code=i.code.replace(i.parts[0], other, 1))


@operator
def change_function(i):
    """Of the special units."""
    other = {"rsqrt": "sqrt", "ex2": "rcp", "rcp": "sqrt", "lg2": "ex2"}.get(i.parts[0])
    if other:
        yield i.text(code=i.code.replace(i.parts[0], other, 1))


@operator
def drop_saturation(i):
    if "sat" in i.parts:
        yield i.text("mov.f32", i.operands[:2])


@operator
def drop_store(i):
    if i.parts[0] == "st":
        yield ""


@operator
def other_special_register(i):
    """Threads for blocks."""
    pairs = {
        "%tid.x": "%ctaid.x",
        "%ctaid.x": "%tid.x",
        "%nctaid.x": "%ntid.x",
        "%ntid.x": "%nctaid.x",
    }
    if i.operands and i.operands[-1] in pairs:
        yield i.text(operands=[*i.operands[:-1], pairs[i.operands[-1]]])


# ------------------------------------------------------------------ mutants
@dataclass(frozen=True)
class Mutant:
    operator: str
    line: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        lines = text.split("\n")
        assert lines[self.line].strip() == self.old
        lines[self.line] = self.new and f"\t{self.new}"
        return "\n".join(lines)

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.operator}: {old} -> {new or '(nothing)'}"


def mutants(text: str) -> list[Mutant]:
    """Every mutant of a program, in the order of operators and lines. None of a choice that makes no
    difference.
    """
    program = Program.read(text)
    code = {n: i for n, i in program.code.items() if not program.chooses_division(i)}
    found = []
    for name, function in OPERATORS.items():
        for number, instruction in code.items():
            old = program.lines[number].strip()
            for new in function(instruction):
                if new.split() != old.split():
                    found.append(Mutant(name, number, old, new.strip()))
    return found
