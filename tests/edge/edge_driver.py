"""What every edge test shares: rewrite one module, check the report, run both modules, compare.

An input declares its right result in comments (README.md) and has a generator `cases(dtype)` that
yields results of running it. Nothing here knows an op: what must be fused is said by the inputs,
whether it is right by running them.
"""

from __future__ import annotations

import ast
import fnmatch
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

EDGE = Path(__file__).resolve().parent
ROOT = EDGE.parent.parent
MODULE = "modeling_edge"  # both programs run under this name, so that names in messages agree
IMPORT_LINE = b"from tfrewrite import ops as tfr"

for folder in (str(ROOT / "python"), str(ROOT / "tests")):
    if folder not in sys.path:
        sys.path.insert(0, folder)
sys.dont_write_bytecode = True
# Bitwise equality holds for the references; kernels have bounds of their own (docs/NUMERICS.md).
# They also load a library into Python, which a sanitised one cannot be.
os.environ.setdefault("TFR_OPS", "ref")
# With kernels, of a tensor's largest magnitude: products are sums in another order.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}
torch.set_num_threads(1)  # the same summation order in both runs, whatever else the machine does


Files = dict[str, bytes]  # module name -> source


class Fault(AssertionError):
    """The rewriter did something wrong; the text says what."""


# ---------------------------------------------------------------- running the rewriter


@dataclass
class Outcome:
    code: int
    text: bytes | None  # the rewritten file; None when none was written
    report: dict | None  # the entry of this file in the JSON report
    stderr: str


def find_binary() -> str:
    found = os.environ.get("TFR_BIN")
    if found:
        return found
    built = sorted(ROOT.glob("build/*/tfrewrite"), key=lambda p: p.stat().st_mtime)
    if built:
        return str(built[-1])
    found = shutil.which("tfrewrite")
    if not found:
        raise Fault("no tfrewrite program: build it (cmake --preset test) or set TFR_BIN")
    return found


def rewrite_with_binary(
    data: bytes, args: tuple[str, ...] = (), name: str = MODULE, beside: Files | None = None
) -> Outcome:
    """`beside`: other files of its folder, by name, which it may import from."""
    with tempfile.TemporaryDirectory(prefix="tfr-edge-") as folder:
        source, out = Path(folder, name + ".py"), Path(folder, "out.py")
        for other, text in (beside or {}).items():
            Path(folder, other + ".py").write_bytes(text)
        source.write_bytes(data)
        done = subprocess.run(
            [find_binary(), "--json", "-o", str(out), *args, str(source)],
            capture_output=True,
            timeout=60,
            check=False,
        )
        if source.read_bytes() != data:
            raise Fault("the input file was changed although -o names another one")
        text = out.read_bytes() if out.exists() else None
    report = None
    if done.stdout.strip():
        document = json.loads(done.stdout)
        if document.get("version") != 1 or len(document["files"]) > 1:
            raise Fault(f"report is not one file of version 1: {document}")
        report = document["files"][0] if document["files"] else None
    return Outcome(done.returncode, text, report, done.stderr.decode("utf-8", "replace"))


# ---------------------------------------------------------------- what an input expects


@dataclass
class Expectation:
    kind: str  # one of KINDS
    op: str = "*"
    where: str = "*"
    count: int = 1
    patterns: list[str] = field(default_factory=list)
    line: int = 0


KINDS = ("fused", "either", "told", "refused", "not-fused", "text", "no-text")


@dataclass
class Wanted:
    """What the header comments of an input say."""

    items: list[Expectation] = field(default_factory=list)
    args: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    codes: tuple[int, ...] = (0,)  # exit statuses; 3 beside 0: the file may be refused as a whole


def read_expectations(text: str) -> Wanted:
    wanted = Wanted()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("# args:"):
            wanted.args = tuple(shlex.split(line[len("# args:") :]))
        elif line.startswith("# dtypes:"):
            wanted.dtypes = tuple(line[len("# dtypes:") :].split())
        elif line.startswith("# exit:"):
            wanted.codes = tuple(int(code) for code in line[len("# exit:") :].split())
        elif line.startswith("# expect:"):
            words = shlex.split(line[len("# expect:") :])
            if not words or words[0] not in KINDS:
                raise ValueError(f"line {number}: {line!r} is none of {KINDS}")
            item = Expectation(words[0], line=number)
            if item.kind in ("text", "no-text"):
                item.patterns = words[1:]
            else:
                item.op = words[1]
                item.where = words[2] if len(words) > 2 else "*"
                rest = words[3:]
                if rest and re.fullmatch(r"x\d+", rest[0]):
                    item.count = int(rest.pop(0)[1:])
                item.patterns = rest
            wanted.items.append(item)
    return wanted


def place(entry: dict) -> str:
    owner = entry.get("class") or ""
    return f"{owner}.{entry['function']}" if owner else entry["function"]


def fits(item: Expectation, op: str, where: str) -> bool:
    # A class inside another or inside a function may be named with or without its owners.
    return fnmatch.fnmatchcase(op, item.op) and (
        fnmatch.fnmatchcase(where, item.where) or fnmatch.fnmatchcase(where, "*." + item.where)
    )


def check_report(expectations: list[Expectation], before: bytes, out: Outcome) -> None:
    """The report holds what the input expects and no more, and the text agrees with it."""
    if out.code != 0:
        raise Fault(f"exit status {out.code}: {out.stderr}")
    if out.report is None or out.text is None:
        raise Fault(f"no report or no output: {out.stderr}")
    counts: Counter = Counter()
    for entry in out.report["fused"]:
        counts[entry["op"], place(entry)] += entry["count"]
    check_places(before, out.report)
    if out.report["changed"] != (out.text != before):
        raise Fault(f"changed={out.report['changed']}, but the text says otherwise")
    if bool(counts) != out.report["changed"]:
        raise Fault(f"changed={out.report['changed']} with {sum(counts.values())} fused")
    written = count_calls(out.text) - count_calls(before)
    reported: Counter = Counter()
    for (op, _), n in counts.items():
        reported[op] += n
    if written != reported:
        raise Fault(f"the report counts {dict(reported)}, the text holds {dict(written)}")
    # The expectations are comments of the file: their patterns must not find themselves.
    text = re.sub(r"^# expect:.*", "# expect", decode(out.text), flags=re.M)
    taken: set = set()
    for item in expectations:
        hits = {key: n for key, n in counts.items() if fits(item, *key)}
        if item.kind == "fused":
            if sum(hits.values()) != item.count:
                raise Fault(
                    f"line {item.line}: {item.op} in {item.where}: expected {item.count}, fused "
                    f"{sum(hits.values())}{why_not(out, item)}"
                )
            body = "\n".join(function_texts(text, item.where)) or text
            for pattern in item.patterns:
                if not re.search(pattern, body, re.S):
                    raise Fault(f"line {item.line}: {pattern!r} is not in the result:\n{body}")
        elif item.kind == "not-fused" and hits:
            raise Fault(
                f"line {item.line}: {item.op} in {item.where} must stay, but was fused: {hits}"
            )
        elif item.kind == "refused" or (item.kind == "told" and not hits):
            check_refused(item, hits, out)
        elif item.kind in ("text", "no-text"):
            for pattern in item.patterns:
                if bool(re.search(pattern, text, re.S | re.M)) != (item.kind == "text"):
                    what = f"line {item.line}: {item.kind} {pattern!r}"
                    raise Fault(f"{what} does not hold:\n{text}")
        if item.kind in ("fused", "either", "told"):
            taken |= set(hits)
    extra = {key: n for key, n in counts.items() if key not in taken}
    if extra:
        raise Fault(f"fused, but the input does not expect it: {extra}")


def check_places(before: bytes, report: dict) -> None:
    """Lines and columns lie in the function they name, a refusal has a reason."""
    lines = lines_of(before)
    spans: dict[str, list] = {}
    for name, node in functions(ast.parse(before)):
        spans.setdefault(name.rsplit(".", 1)[-1], []).append((node.lineno, node.end_lineno))
    for entry in [*report["fused"], *report["refused"]]:
        first, last = entry["line"], entry.get("end_line", entry["line"])
        inside = spans.get(entry["function"], [] if entry["function"] else [(1, len(lines))])
        if not any(start <= first <= last <= end for start, end in inside):
            raise Fault(f"not a place in {entry['function']!r}: {entry}")
        if "reason" in entry:
            if not entry["reason"].strip():
                raise Fault(f"a refusal without a reason: {entry}")
            if not 1 <= entry["column"] <= len(decode_line(before, lines[first - 1])) + 1:
                raise Fault(f"no such column: {entry}")


def decode_line(data: bytes, line: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return line.decode(encoding)


def check_refused(item: Expectation, hits: dict, out: Outcome) -> None:
    if hits:
        raise Fault(
            f"line {item.line}: {item.op} in {item.where} must be refused, but was fused: {hits}"
        )
    reasons = [e["reason"] for e in out.report["refused"] if fits(item, e["op"], place(e))]
    if not reasons:
        raise Fault(f"line {item.line}: no reason is given for {item.op} in {item.where}")
    for pattern in item.patterns:
        if not any(re.search(pattern, reason, re.I) for reason in reasons):
            raise Fault(f"line {item.line}: no reason of {reasons} speaks of {pattern!r}")


def why_not(out: Outcome, item: Expectation) -> str:
    said = [f"{e['op']} {place(e)}:{e['line']}: {e['reason']}" for e in out.report["refused"]]
    fused = [f"{e['op']} {place(e)} x{e['count']}" for e in out.report["fused"]]
    return f"; fused: {fused}; refused: {said}"


def count_calls(data: bytes) -> Counter:
    """Calls of ops by name, under whatever name the file imports `tfrewrite.ops`."""
    tree = ast.parse(data)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tfrewrite"
        for alias in node.names
        if alias.name == "ops"
    }
    return Counter(
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in names
    )


def functions(tree: ast.AST) -> list[tuple[str, ast.AST]]:
    """(qualified name, node) of every function, owners joined by dots, in order of appearance."""
    found, stack = [], [("", tree)]
    while stack:
        owner, node = stack.pop()
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            for child in getattr(node, block, ()) if not isinstance(node, ast.expr) else ():
                name = owner
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    name = f"{owner}.{child.name}" if owner else child.name
                    if not isinstance(child, ast.ClassDef):
                        found.append((name, child))
                if not isinstance(child, ast.expr):
                    stack.append((name, child))
    return sorted(found, key=lambda pair: pair[1].lineno)


def function_texts(text: str, where: str) -> list[str]:
    lines = text.splitlines()
    return [
        "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for name, node in functions(ast.parse(text))
        if fnmatch.fnmatchcase(name, where) or fnmatch.fnmatchcase(name, "*." + where)
    ]


# ---------------------------------------------------------------- bytes outside the edits


def lines_of(data: bytes) -> list[bytes]:
    return re.split(rb"(?<=\n)|(?<=\r)(?!\n)", data)


def check_bytes(before: bytes, out: Outcome) -> None:
    """Outside edited functions and one import no byte differs; no comment is lost anywhere."""
    ast.parse(out.text)
    compile(out.text, MODULE, "exec", dont_inherit=True)
    if not out.report["fused"]:
        if out.text != before:
            raise Fault("nothing is fused, but the bytes differ")
        return
    edited = {place(entry) for entry in out.report["fused"]}
    spans = {(place(e), e["line"], e["end_line"]) for e in out.report["fused"]}
    old, new = (skeleton(data, edited) for data in (before, out.text))
    added = out.text.count(IMPORT_LINE) - before.count(IMPORT_LINE)
    if added != (IMPORT_LINE not in before):
        raise Fault(f"{added} import lines were added")
    kept = [line for line in new if not added or IMPORT_LINE not in line]
    if old != kept:
        raise Fault("bytes outside the edited functions differ:\n" + first_difference(old, kept))
    check_lines_inside(before, out.text, spans)
    lost = comments(before) - comments(out.text) if b"#" in before else None
    if lost:
        raise Fault(f"comments were lost: {dict(lost)}")


def named(name: str, places) -> bool:
    return any(name == place or name.endswith("." + place) for place in places)


def skeleton(data: bytes, edited: set[str]) -> list[bytes]:
    """The lines of a file without the bodies of functions named in `edited`."""
    lines, cut = lines_of(data), set()
    for name, node in functions(ast.parse(data)):
        if named(name, edited):
            cut |= set(range(node.body[0].lineno, node.end_lineno + 1))
            cut |= comment_block_above(lines, node.body[0].lineno)
    return [line for number, line in enumerate(lines, 1) if number not in cut]


def comment_block_above(lines: list[bytes], number: int) -> set[int]:
    above = set()
    while number > 1 and (
        not lines[number - 2].strip() or lines[number - 2].lstrip().startswith(b"#")
    ):
        number -= 1
        above.add(number)
    return above


def check_lines_inside(before: bytes, after: bytes, spans: set[tuple[str, int, int]]) -> None:
    """Inside an edited function, lines outside the fused statements are there, to the byte."""
    inside: Counter = Counter()
    fused = {n for _, first, last in spans for n in range(first, last + 1)}
    lines = lines_of(before)
    for name, node in functions(ast.parse(before)):
        if any(
            named(name, [place]) and node.lineno <= first <= node.end_lineno
            for place, first, _ in spans
        ):
            free = fused | lines_that_may_go(node, fused)
            inside.update(
                lines[n - 1] for n in range(node.lineno, node.end_lineno + 1) if n not in free
            )
    missing = inside - Counter(lines_of(after))
    missing = {line: n for line, n in missing.items() if line.strip()}
    if missing:
        raise Fault(f"lines outside the fused ranges were changed: {missing}")


def lines_that_may_go(function: ast.AST, fused: set[int]) -> set[int]:
    """Other lines of simple statements fused in part, copies (`residual = hidden`), the head of
    an `if` whose whole body is fused: nothing reads what it gave; and sums of two names beside
    an `if`, which may move behind it or into it."""
    found = set()
    branches = any(isinstance(node, ast.If) for node in ast.walk(function))
    for node in ast.walk(function):
        if isinstance(node, ast.If) and not node.orelse:
            body = range(node.body[0].lineno, node.end_lineno + 1)
            if fused.issuperset(body):
                found |= set(range(node.lineno, node.body[0].lineno))
        if (
            isinstance(node, ast.stmt)
            and not hasattr(node, "body")
            and not isinstance(node, ast.Match)
        ):
            lines = set(range(node.lineno, node.end_lineno + 1))
            copy = isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
            if copy or lines & fused or (branches and is_sum(node)):
                found |= lines
    return found


def is_sum(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)):
        return False
    parts = node.value.left, node.value.op, node.value.right
    return all(isinstance(p, kind) for p, kind in zip(parts, (ast.Name, ast.Add, ast.Name)))


def decode(data: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


def comments(data: bytes) -> Counter:
    lines = io.StringIO(decode(data), newline=None)  # tokenize itself knows no lone CR
    return Counter(
        token.string.rstrip()
        for token in tokenize.generate_tokens(lines.readline)
        if token.type == tokenize.COMMENT
    )


def first_difference(old: list[bytes], new: list[bytes]) -> str:
    for number, (a, b) in enumerate(zip(old, new), 1):
        if a != b:
            return f"line {number} (bodies not counted): {a!r} became {b!r}"
    over = max(old, new, key=len)[min(len(old), len(new))]
    return f"{len(old)} lines became {len(new)}; the first left over: {over!r}"


def check_second_run(out: Outcome, again: Outcome) -> None:
    if again.code != 0 or again.report is None:
        raise Fault(f"the result is not accepted as input: {again.code}: {again.stderr}")
    if again.text != out.text or again.report["changed"] or again.report["fused"]:
        raise Fault(f"a second run changes the result: {again.report['fused']}")


# ---------------------------------------------------------------- running both modules


PACKAGE = "edge_package"  # what a module with files beside it belongs to


def load(data: bytes, folder: str, beside: Files | None = None):
    for name, text in {**(beside or {}), MODULE: data}.items():
        Path(folder, name + ".py").write_bytes(text)
    name = MODULE
    if beside:
        name = f"{PACKAGE}.{MODULE}"
        package = importlib.machinery.ModuleSpec(PACKAGE, None, is_package=True)
        package.submodule_search_locations = [folder]
        sys.modules[PACKAGE] = importlib.util.module_from_spec(package)
        importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(name, Path(folder, MODULE + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        unload()
        raise
    return module


def unload() -> None:
    for name in list(sys.modules):
        if name in (MODULE, PACKAGE) or name.startswith(PACKAGE + "."):
            del sys.modules[name]


def run_module(data: bytes, dtype: torch.dtype, beside: Files | None = None) -> list:
    """What `cases(dtype)` yields, frozen as it comes. A yielded function is called, may raise."""
    with tempfile.TemporaryDirectory(prefix="tfr-edge-") as folder:
        try:
            module = load(data, folder, beside)
            torch.manual_seed(0)
            results = []
            for value in module.cases(dtype):
                if callable(value) and not isinstance(value, torch.nn.Module):
                    try:
                        value = ("returned", value())
                    except Exception as error:  # which one is raised is part of the result
                        value = ("raised", type(error).__name__)
                results.append(freeze(value, {}))
            results.append(freeze(("random state", torch.get_rng_state()), {}))
            return results
        finally:
            unload()


def freeze(value, storages: dict):
    """A copy to compare: bits, dtype, shape, strides, gradient flag, which share memory."""
    if isinstance(value, torch.Tensor):
        strides = (
            tuple(s for s, n in zip(value.stride(), value.shape) if n > 1) if value.numel() else ()
        )
        storage = storages.setdefault(value.untyped_storage()._cdata, len(storages))
        flat = value.detach().clone(memory_format=torch.contiguous_format)
        if flat.is_floating_point():
            flat = torch.where(flat.isnan(), torch.full_like(flat, float("nan")), flat)
        meta = (str(value.dtype), tuple(value.shape), strides, value.requires_grad, storage)
        return ("tensor", type(value).__name__, meta, flat)
    if isinstance(value, dict):
        return ("dict", type(value).__name__, [(k, freeze(v, storages)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return ("list", type(value).__name__, [freeze(v, storages) for v in value])
    if value is None or isinstance(value, (int, float, str, bytes, torch.dtype, torch.Size)):
        return ("value", type(value).__name__, repr(value))
    raise TypeError(f"cases() yields {type(value).__name__}, which cannot be compared")


def compare(old, new, path: str = "result", bits: bool = True) -> None:
    """To the bit, or float values within TOLERANCE and the rest to the bit."""
    if old[0] != new[0] or old[1] != new[1]:
        raise Fault(f"{path}: {old[0]} {old[1]} became {new[0]} {new[1]}")
    if old[0] == "tensor":
        if old[2] != new[2]:
            names = "(dtype, shape, strides, requires_grad, shares memory with)"
            raise Fault(f"{path}: {names} {old[2]} became {new[2]}")
        if not bits and old[3].dtype in TOLERANCE:
            return compare_values(old[3], new[3], path)
        a, b = (t[3].contiguous().reshape(-1).view(torch.uint8) for t in (old, new))
        if not torch.equal(a, b):
            wrong = (a != b).view(old[3].numel(), -1).any(1).sum()
            gap = (old[3].double() - new[3].double()).abs().nan_to_num().max()
            raise Fault(f"{path}: {wrong} of {old[3].numel()} elements differ, by up to {gap:.3g}")
    elif old[0] == "value":
        if old[2] != new[2] and not (not bits and close_numbers(old, new)):
            raise Fault(f"{path}: {old[2]} became {new[2]}")
    else:
        if len(old[2]) != len(new[2]):
            raise Fault(f"{path}: {len(old[2])} items became {len(new[2])}")
        for index, (a, b) in enumerate(zip(old[2], new[2])):
            if old[0] == "dict":
                if a[0] != b[0]:
                    raise Fault(f"{path}: key {a[0]!r} became {b[0]!r}")
                compare(a[1], b[1], f"{path}[{a[0]!r}]", bits)
            else:
                compare(a, b, f"{path}[{index}]", bits)


def compare_values(old: torch.Tensor, new: torch.Tensor, path: str) -> None:
    plain = old.isfinite()
    if any(not torch.equal(f(old), f(new)) for f in (torch.isnan, torch.isposinf, torch.isneginf)):
        raise Fault(f"{path}: NaN or infinities in other places")
    gap, scale = (old - new)[plain].abs().double(), old[plain].abs().double()
    if gap.numel() and not gap.max() <= TOLERANCE[old.dtype] * scale.max():
        raise Fault(f"{path}: values differ by up to {gap.max():.3g} of {scale.max():.3g}")


def close_numbers(old, new) -> bool:
    if old[1] != "float":
        return False
    a, b = float(old[2]), float(new[2])
    return abs(a - b) <= TOLERANCE[torch.bfloat16] * abs(a)


def check_runs(
    before: bytes,
    after: bytes,
    dtype: torch.dtype,
    bits: bool = True,
    beside: tuple[Files | None, Files | None] = (None, None),
) -> int:
    """Runs original and result on the same random numbers; the number of results compared."""
    return check_result(run_module(before, dtype, beside[0]), after, dtype, bits, beside[1])


def check_result(
    old: list, after: bytes, dtype: torch.dtype, bits: bool = True, beside: Files | None = None
) -> int:
    """Holds the result against what the original gave."""
    if len(old) < 2:
        raise Fault("the input's cases() yields nothing, so nothing is tested")
    try:
        new = run_module(after, dtype, beside)
    except Exception as error:
        raise Fault(
            f"the original runs, the result raises {type(error).__name__}: {error}"
        ) from error
    if len(old) != len(new):
        raise Fault(f"{len(old)} results became {len(new)}")
    faults = []
    for index, (a, b) in enumerate(zip(old, new)):
        try:
            compare(a, b, f"result {index}", bits)
        except Fault as fault:
            faults.append(str(fault))
    if faults:
        raise Fault("; ".join(faults[:8]))
    return len(old)
