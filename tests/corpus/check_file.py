"""What a rewrite of one file may not do, checked from the two texts and the report alone.

Independent of the program's own gates: nothing here knows how it finds or writes its edits.
`problems` lists every violation: bytes outside the named functions, comments, decorators,
signatures, other statements, calls to anything unknown, names that would be read without being
set.
"""

import ast
import difflib
import functools
import io
import re
import tokenize
from collections import Counter
from dataclasses import dataclass

IMPORT = "from tfrewrite import ops as tfr"

# Calls that a fused block may absorb: computations without an effect. Anything else in the
# original must still be called.
PURE_METHODS = set(
    """
    to float double half bfloat16 type type_as
    pow square mean sum sqrt rsqrt reciprocal mul add sub div neg abs sigmoid tanh relu
    clamp reshape_as unsqueeze squeeze transpose permute movedim swapaxes swapdims view reshape flatten unflatten
    chunk split unbind narrow select index_select stack expand repeat_interleave contiguous clone
    size dim
    """.split()
)
PURE_FUNCTIONS = set(
    """
    torch.pow torch.square torch.mean torch.sum torch.sqrt torch.rsqrt torch.reciprocal torch.mul
    torch.multiply torch.add torch.neg torch.sigmoid torch.tanh torch.relu torch.cat torch.concat
    torch.concatenate torch.stack torch.chunk torch.split torch.unbind torch.unsqueeze torch.flatten
    torch.repeat_interleave torch.view_as_complex torch.view_as_real
    torch.clamp torch.norm torch.linalg.norm linalg.norm .norm .clamp_min F.normalize normalize F.rms_norm rms_norm
    F.silu F.gelu F.relu F.sigmoid F.linear len max min int slice tuple
    """.split()
)


@dataclass
class Function:
    path: str  # Class.method#0: the ordinal tells functions of one name apart
    node: ast.AST
    first: int  # first line of the body, docstring left out; comments above it belong to the body
    last: int


@functools.lru_cache(maxsize=256)
def nodes(node) -> list[ast.AST]:
    """ast.walk as a list: every check asks for it again."""
    return list(ast.walk(node))


def statements_below(node):
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        below = getattr(node, name, None)
        if isinstance(below, list):
            yield from below


def functions(tree: ast.Module, lines: list[bytes]) -> list[Function]:
    """Every function of a module, methods and nested ones included, in source order."""
    found, seen = [], Counter()
    todo = [(tree, "")]
    while todo:
        node, prefix = todo.pop()
        for child in statements_below(node):
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}.{child.name}" if prefix else child.name
                seen[name] += 1
                name = f"{name}#{seen[name] - 1}"
                if not isinstance(child, ast.ClassDef):
                    found.append(Function(name, child, *_body_lines(child, lines)))
            todo.append((child, name))
    return sorted(found, key=lambda f: f.node.lineno)


def _body_lines(node, lines: list[bytes]) -> tuple[int, int]:
    """First and last line of a function's statements; a one-line function is its line."""
    start = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        header = start.end_lineno
    elif start.lineno == node.lineno:
        return node.lineno, node.end_lineno
    else:
        header = node.lineno - 1
        reader = iter(lines[header : start.lineno])
        for token in tokenize.tokenize(lambda: next(reader, b"")):
            if token.type == tokenize.NEWLINE:  # of `def ...:`
                header += token.start[0]
                break
    return min(header + 1, node.end_lineno), node.end_lineno


def plain(path: str) -> tuple[str, str]:
    """(class, function) of a path, as the report names them."""
    parts = [re.sub(r"#\d+$", "", p) for p in path.split(".")]
    return (parts[-2] if len(parts) > 1 else ""), parts[-1]


def named_by(
    fused: list[dict], all_functions: list[Function]
) -> tuple[dict[str, list[dict]], list[str]]:
    """path -> report entries of that function, and complaints about entries that name no
    function."""
    owners: dict[str, list[dict]] = {}
    complaints = []
    for entry in fused:
        inside = [
            f
            for f in all_functions
            if plain(f.path)[1] == entry["function"]
            and f.node.lineno <= entry["line"] <= entry["end_line"] <= f.last
            and (
                entry["class"] == plain(f.path)[0]
                or entry["class"] in f.path.split("#")[0].split(".")
            )
        ]
        if not inside:
            complaints.append(
                f"report: {entry['class']}.{entry['function']} has no line"
                f" {entry['line']}-{entry['end_line']}"
            )
            continue
        owners.setdefault(max(inside, key=lambda f: f.node.lineno).path, []).append(entry)
    return owners, complaints


# ------------------------------------------------------------------ the checks
def problems(original: bytes, rewritten: bytes, report: dict) -> list[str]:
    """Every violation, in words; empty when the rewrite is sound. `report` is one entry of the
    report's `files`."""
    if not report["changed"] or not report["fused"]:
        if original != rewritten or report["changed"] or report["fused"]:
            return ["the report and the bytes disagree on whether something changed"]
        return []
    if original == rewritten:
        return ["the report says changed, the bytes are the same"]
    try:
        old_tree = ast.parse(original)
        new_tree = ast.parse(rewritten)
        compile(rewritten, "rewritten", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return [f"does not parse: {error}"]
    old_lines, new_lines = split_lines(original), split_lines(rewritten)
    old_functions, new_functions = functions(old_tree, old_lines), functions(new_tree, new_lines)
    if [f.path for f in old_functions] != [f.path for f in new_functions]:
        paths = [{f.path for f in side} for side in (old_functions, new_functions)]
        return [f"other functions: {sorted(paths[0] ^ paths[1])[:5]}"]
    owners, found = named_by(report["fused"], old_functions)
    found += [f"{path}: an __init__ was edited" for path in owners if plain(path)[1] == "__init__"]
    pairs = [(a, b) for a, b in zip(old_functions, new_functions) if a.path in owners]
    pairs = [
        p
        for p in pairs
        if not any(
            o is not p[0] and o.first <= p[0].first and p[0].last <= o.last for o, _ in pairs
        )
    ]
    found += outside(old_lines, new_lines, pairs)
    found += module_level(old_tree, new_tree, [f.node for p in pairs for f in p])
    methods: dict[str, set[str]] = {}
    handed = {name for _, b in pairs for name in handed_to_ops(b.node)}
    for a, b in pairs:
        owner = a.path.rpartition(".")[0]
        if owner not in methods:
            methods[owner] = pure_methods(a, old_functions, handed)
        helpers = methods[owner]
        entries = [
            e
            for path, es in owners.items()
            for e in es
            if path == a.path or path.startswith(a.path + ".")
        ]
        found += [
            f"{a.path}: {what}"
            for what in inside_function(old_lines, new_lines, a, b, entries, helpers)
        ]
    return found


def split_lines(data: bytes) -> list[bytes]:
    """Lines as Python's tokenizer counts them, ends kept; a form feed does not end one."""
    return re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", data)


def outside(old_lines, new_lines, pairs) -> list[str]:
    """Bytes outside the bodies of the named functions: the same, but for the one import line."""
    old, new = [], []
    for lines, side, out in ((old_lines, 0, old), (new_lines, 1, new)):
        at = 0
        for pair in pairs:
            out += [*lines[at : pair[side].first - 1], b"<body>"]
            at = pair[side].last
        out += lines[at:]
    for i, (a, b) in enumerate(zip([*old, None], new)):
        if a != b:
            if (
                b.strip().decode("utf-8", "replace") == IMPORT
                and b.rstrip(b"\r\n") == IMPORT.encode()
            ):
                if new[i + 1 :] == old[i:]:
                    return []
            break
    differing = [
        line
        for line in difflib.unified_diff(
            [repr(x) for x in old], [repr(x) for x in new], n=0, lineterm=""
        )
    ][:8]
    return [f"bytes outside the named functions differ: {differing}"]


def module_level(old_tree, new_tree, edited: list) -> list[str]:
    """The syntax tree outside the edited functions: bases, decorators, signatures, __init__s."""
    imports = [
        n for n in new_tree.body if isinstance(n, ast.ImportFrom) and ast.unparse(n) == IMPORT
    ]
    if len(imports) != 1:
        return [f"{len(imports)} imports of the ops at module level"]
    bodies = [function.body for function in edited]
    for function in edited:
        docstring = ast.get_docstring(function, clean=False)
        function.body = [ast.Pass()] if docstring is None else function.body[:1]
    old, new = (
        [ast.dump(n) for n in tree.body if n not in imports] for tree in (old_tree, new_tree)
    )
    for function, body in zip(edited, bodies, strict=True):
        function.body = body
    if len(old) != len(new):
        return [f"{len(old)} statements at module level became {len(new)}"]
    differing = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    return [f"module level statement {i} differs" for i in differing]


def inside_function(
    old_lines, new_lines, old: Function, new: Function, entries: list[dict], helpers: set[str]
) -> list[str]:
    """What must survive within a named function."""
    found = []
    a, b = old_lines[old.first - 1 : old.last], new_lines[new.first - 1 : new.last]
    branches = any(isinstance(n, ast.If) for n in ast.walk(old.node))
    spans = whole_statements(old.node, [(e["line"], e["end_line"]) for e in entries])
    for tag, i1, i2, _, _ in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag in ("replace", "delete"):
            lost = [n for n in range(old.first + i1, old.first + i2) if a[n - old.first].strip()]
            # A copy of a name goes where the call gives both names their values; see unset_names.
            # A sum of two moves behind a branch, or into it.
            gone = rb"\s*\w+ = \w+( \+ \w+)?\s*" if branches else rb"\s*\w+ = \w+\s*"
            strays = [
                n
                for n in lost
                if not any(s <= n <= e for s, e in spans)
                and not re.fullmatch(gone, a[n - old.first])
            ]
            if strays:
                text = a[strays[0] - old.first].strip()
                found.append(f"line {strays[0]} is gone, in no fused block: {text!r}")
    before, after = comments(a), comments(b)
    if before != after:
        lost, new_ones = Counter(before) - Counter(after), Counter(after) - Counter(before)
        found.append(f"comments lost {sorted(lost)}, new {sorted(new_ones)}, or in another order")
    found += lost_calls(old.node, new.node, helpers)
    found += lost_statements(old.node, new.node, spans)
    found += unset_names(old.node, new.node)
    return found


def whole_statements(function, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans, each as wide as the simple statements that it touches."""
    simple = [
        (n.lineno, n.end_lineno)
        for n in nodes(function)
        if isinstance(n, ast.stmt) and not hasattr(n, "body")
    ]
    found = []
    for first, last in spans:
        touched = [s for s in simple if s[0] <= last and first <= s[1]] + [(first, last)]
        found.append((min(s[0] for s in touched), max(s[1] for s in touched)))
    return found


def comments(lines: list[bytes]) -> list[str]:
    """The comments of a function's lines, in order."""
    text = b"if 1:\n" + b"".join(lines)
    found = []
    try:
        for token in tokenize.tokenize(io.BytesIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append(token.string)
    except (tokenize.TokenError, IndentationError) as error:
        return [f"lines {id(lines)} do not tokenize: {error}"]  # equal to no others
    return found


def called(node) -> Counter:
    """How often each thing is called: by its dotted name, methods of local values by their own."""
    local = stored(node) - {"self", "cls"}
    names = Counter()
    for n in nodes(node):
        if isinstance(n, ast.Call):
            f = n.func
            root = root_name(f)
            if isinstance(f, ast.Attribute) and (root is None or root in local):
                names[f".{f.attr}"] += 1
            else:
                names[ast.unparse(f)] += 1
    return names


def root_name(node) -> str | None:
    """`a` of a.b.c; None when there is something else than a name at the root."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def handed_to_ops(node) -> set[str]:
    """Dotted expressions that stand as arguments of an op call: the op calls these itself."""
    handed = set()
    for n in nodes(node):
        if (
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and ast.unparse(n.func.value) == "tfr"
        ):
            for value in [*n.args, *(k.value for k in n.keywords)]:
                if isinstance(value, ast.IfExp):  # a module that is called under a condition
                    handed.update(map(ast.unparse, (value.body, value.orelse)))
                handed.update(ast.unparse(v) for v in getattr(value, "elts", [value]))
    return handed


def pure(name: str) -> bool:
    """Whether a call of this name is a computation without an effect."""
    name = re.sub(r"^(nn\.functional|torch\.nn\.functional|torch\.F)\.", "F.", name)
    return name in PURE_FUNCTIONS or ("." in name and name.rsplit(".", 1)[-1] in PURE_METHODS)


def pure_methods(function: Function, all_functions: list[Function], handed: set[str]) -> set[str]:
    """`self.x` for the methods of the same class that do nothing but compute, and call what is
    handed to ops."""
    owner = function.path.rpartition(".")[0]
    found = set()
    for other in all_functions:
        stores = any(
            isinstance(n, (ast.Attribute, ast.Subscript)) and not isinstance(n.ctx, ast.Load)
            for n in nodes(other.node)
        )
        if (
            other.path.rpartition(".")[0] == owner
            and not stores
            and all(pure(name) or name in handed for name in called(other.node))
        ):
            found.add(f"self.{plain(other.path)[1]}")
    return found


def lost_calls(old, new, helpers: set[str]) -> list[str]:
    before, after, handed = called(old), called(new), handed_to_ops(new)
    return [
        f"{count} call(s) of {name} are gone"
        for name, count in (before - after).items()
        if not pure(name) and name not in handed and name not in helpers
    ]


# Statements by kind. Only blocks inside a fused span may go with it (a condition that the op
# holds).
KINDS = (
    ast.Return,
    ast.Raise,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.Assert,
    ast.If,
    ast.For,
    ast.While,
    ast.With,
    ast.Try,
    ast.Delete,
    ast.Global,
    ast.Nonlocal,
    ast.FunctionDef,
    ast.Lambda,
    ast.Break,
    ast.Continue,
    ast.Import,
    ast.ImportFrom,
    ast.NamedExpr,
    ast.Match,
)


def lost_statements(old, new, spans) -> list[str]:
    found = []
    for kind in KINDS:
        before = [n for n in nodes(old) if type(n) is kind]
        after = sum(type(n) is kind for n in nodes(new))
        if kind in (ast.If,):
            before = [
                n for n in before if not any(s <= n.lineno and n.end_lineno <= e for s, e in spans)
            ]
            if after < len(before):
                found.append(
                    f"{len(before) - after} {kind.__name__} outside the fused blocks are gone"
                )
        elif after != len(before):
            found.append(f"{len(before)} {kind.__name__} became {after}")
    stores = [
        Counter(
            ast.unparse(n)
            for n in nodes(side)
            if isinstance(n, (ast.Attribute, ast.Subscript))
            and isinstance(n.ctx, (ast.Store, ast.Del))
        )
        for side in (old, new)
    ]
    if stores[0] != stores[1]:
        differing = (stores[0] - stores[1]) + (stores[1] - stores[0])
        found.append(f"writes to attributes or items differ: {sorted(differing)}")
    return found


def unset_names(old, new) -> list[str]:
    """Names that were local to the original, are still read, and are set nowhere any more."""
    old_set, new_set = stored(old), stored(new)
    read = {n.id for n in nodes(new) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    gone = sorted((old_set & read) - new_set)
    return [f"{name} is read but no longer set" for name in gone]


def stored(node) -> set[str]:
    names = {n.id for n in nodes(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.arg for n in nodes(node) if isinstance(n, ast.arg)}
    names |= {n.name for n in nodes(node) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    for n in nodes(node):
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).split(".")[0] for a in n.names}
        elif isinstance(n, ast.ExceptHandler) and n.name:
            names.add(n.name)
    return names
