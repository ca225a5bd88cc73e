"""What the functions of a modeling file compute, as graphs of values, read with Python's `ast`.

Made for counting candidates (candidates.py), apart from the program under test: it shares no code
and no table with it, and errs to the side of seeing a value where there is none. A function is
executed once in symbols; both ways of a condition are taken and join as "phi"; functions of the
file and methods of the class are entered.
"""

import ast

MAX_DEPTH = 4
MAX_NODES = 20_000


class Node:
    """One value. `op` is the name of a call or an operator; `path` says under which conditions the
    value is made, as (line of the condition, branch) pairs. In a method or function that is seen
    through, `line` is that of its call, `own_line` the value's own."""

    __slots__ = ("op", "args", "line", "end_line", "own_line", "path", "users", "index", "owner")

    def __init__(self, op, args, line, end_line, own_line, path, index, owner):
        self.op, self.args, self.line, self.end_line = op, args, line, end_line
        self.own_line = own_line
        self.path, self.index, self.owner, self.users = path, index, owner, []

    def __repr__(self):
        return f"{self.op}@{self.line}"


class Method:
    """A function of a class or of the module, with the class in which it is read."""

    def __init__(self, owner, node):
        self.owner, self.node, self.name = owner, node, node.name
        self.params = [a.arg for a in [*node.args.posonlyargs, *node.args.args]]


class Class:
    def __init__(self, node):
        self.node, self.name = node, node.name
        self.bases = [ast.unparse(b).split(".")[-1] for b in node.bases]
        self.methods = {f.name: Method(self, f) for f in node.body if isinstance(f, FUNCTIONS)}
        self.attributes = {}  # name -> the expressions assigned to it
        for method in self.methods.values():
            for statement in ast.walk(method.node):
                self._read_attribute(statement)

    def _read_attribute(self, statement):
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not statement.value:
            return
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and is_name(target.value, "self"):
                self.attributes.setdefault(target.attr, []).append(statement.value)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_name(node, name):
    return isinstance(node, ast.Name) and node.id == name


class Module:
    """A modeling file."""

    def __init__(self, text):
        self.classes, self.functions = {}, {}
        self._collect(ast.parse(text).body)

    def _collect(self, body):
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = Class(node)
            elif isinstance(node, FUNCTIONS):
                self.functions[node.name] = Method(None, node)
            elif isinstance(node, ast.If | ast.Try):
                self._collect([*node.body, *node.orelse, *getattr(node, "finalbody", [])])

    def bases(self, cls):
        """`cls` and the classes of the file that it derives from."""
        found, queue = [], [cls]
        while queue:
            cls = queue.pop(0)
            if cls and cls not in found:
                found.append(cls)
                queue += [self.classes.get(b) for b in cls.bases]
        return found

    def method(self, cls, name):
        return next((c.methods[name] for c in self.bases(cls) if name in c.methods), None)

    def attribute(self, cls, name):
        """All expressions that `cls` and its bases assign to self.NAME."""
        return [e for c in self.bases(cls) for e in c.attributes.get(name, [])]


class Graph:
    """The values of one function, helpers entered."""

    def __init__(self, module, method):
        self.module, self.method, self.cls = module, method, method.owner
        self.nodes, self.table, self.returns = [], {}, []
        self.entered, self.sites, self.path, self.outer = [], [], (), None
        env = {p: self.make("param", (p,), method.node) for p in method.params}
        for extra in [
            *method.node.args.kwonlyargs,
            method.node.args.vararg,
            method.node.args.kwarg,
        ]:
            if extra:
                env[extra.arg] = self.make("param", (extra.arg,), method.node)
        self.entered.append(method)
        self.run(method.node.body, env, self.returns)
        for node in self.nodes:
            for arg in node.args:
                if isinstance(arg, Node):
                    arg.users.append(node)

    # --- values ---

    def make(self, op, args, where, fresh=False):
        key = (op, tuple(a.index if isinstance(a, Node) else ("=", a) for a in args))
        if fresh or key not in self.table:
            if len(self.nodes) > MAX_NODES:
                return self.nodes[0]
            own, where = where, self.outer or where
            node = Node(
                op,
                tuple(args),
                where.lineno,
                where.end_lineno,
                own.lineno,
                self.path,
                len(self.nodes),
                self.entered[-1] if self.entered else self.method,
            )
            self.nodes.append(node)
            if fresh:
                return node
            self.table[key] = node
        return self.table[key]

    def unknown(self, where):
        return self.make("unknown", (len(self.nodes),), where, fresh=True)

    # --- statements ---

    def run(self, body, env, returns):
        """Executes `body` in `env`; True if every way through it leaves the function."""
        for statement in body:
            if self.statement(statement, env, returns):
                return True
        return False

    def statement(self, s, env, returns):
        if isinstance(s, ast.Assign):
            value = self.value(s.value, env)
            for target in s.targets:
                self.bind(target, value, env)
        elif isinstance(s, ast.AnnAssign) and s.value:
            self.bind(s.target, self.value(s.value, env), env)
        elif isinstance(s, ast.AugAssign):
            old = self.value(s.target, env)
            op = type(s.op).__name__
            self.bind(s.target, self.make(op, (old, self.value(s.value, env)), s), env)
        elif isinstance(s, ast.Expr):
            self.value(s.value, env)
        elif isinstance(s, ast.Return):
            if s.value:
                returns.append(self.value(s.value, env))
            return True
        elif isinstance(s, ast.Raise):
            return True
        elif isinstance(s, ast.If):
            return self.branch(s, env, returns)
        elif isinstance(s, ast.For | ast.AsyncFor | ast.While):
            self.loop(s, env, returns)
        elif isinstance(s, ast.With | ast.AsyncWith):
            return self.run(s.body, env, returns)
        elif isinstance(s, ast.Try):
            gone = self.run(s.body, env, returns)
            for handler in s.handlers:
                self.run(handler.body, dict(env), returns)
            return self.run(s.orelse + s.finalbody, env, returns) or gone
        elif isinstance(s, FUNCTIONS):
            env[s.name] = self.unknown(s)
        return False

    def branch(self, s, env, returns):
        self.value(s.test, env)
        outer, ends = self.path, []
        for way, body in enumerate((s.body, s.orelse)):
            inside = dict(env)
            self.path = outer + ((s.lineno, way),)
            if not self.run(body, inside, returns):
                ends.append(inside)
        self.path = outer
        if not ends:
            return True
        self.join(ends, env, s)
        return False

    def join(self, ends, env, where):
        for name in {n: None for end in ends for n in end}:
            found = [end[name] for end in ends if name in end]
            same = all(f is found[0] for f in found)
            env[name] = found[0] if same else self.make("phi", found, where)

    def loop(self, s, env, returns):
        before = dict(env)
        if isinstance(s, ast.While):
            self.value(s.test, env)
        else:
            over = self.value(s.iter, env)
            self.bind(s.target, self.make("item", (over, "loop"), s), env)
        self.path += ((s.lineno, 0),)
        self.run(s.body, env, returns)
        self.path = self.path[:-1]
        self.join([before, dict(env)], env, s)
        self.run(s.orelse, env, returns)

    def bind(self, target, value, env):
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for i, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    part = part.value
                self.bind(part, self.item(value, i, len(target.elts), target), env)
        elif isinstance(target, ast.Attribute):
            env[ast.unparse(target)] = value
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            old = env.get(target.value.id) or self.unknown(target)
            env[target.value.id] = self.make("setitem", (old, value), target)

    def item(self, value, i, count, where):
        if value.op in ("tuple", "list") and len(value.args) == count:
            return value.args[i]
        if value.op == "phi" and all(isinstance(a, Node) for a in value.args):
            return self.make("phi", [self.item(a, i, count, where) for a in value.args], where)
        return self.make("item", (value, i), where)

    # --- expressions ---

    def value(self, e, env):
        if isinstance(e, ast.Constant):
            return self.make("const", (repr(e.value),), e)
        if isinstance(e, ast.Name):
            return env.get(e.id) or self.make("global", (e.id,), e)
        if isinstance(e, ast.Attribute):
            text = ast.unparse(e) if is_name(e.value, "self") else None
            if text and text in env:
                return env[text]
            return self.make("attr", (self.value(e.value, env), e.attr), e)
        if isinstance(e, ast.BinOp):
            return self.make(
                type(e.op).__name__, (self.value(e.left, env), self.value(e.right, env)), e
            )
        if isinstance(e, ast.UnaryOp):
            return self.make(type(e.op).__name__, (self.value(e.operand, env),), e)
        if isinstance(e, ast.Tuple | ast.List):
            parts = [p.value if isinstance(p, ast.Starred) else p for p in e.elts]
            return self.make(type(e).__name__.lower(), [self.value(p, env) for p in parts], e)
        if isinstance(e, ast.Subscript):
            return self.subscript(e, env)
        if isinstance(e, ast.IfExp):
            ways = [self.value(w, env) for w in (e.body, e.orelse)]
            return ways[0] if ways[0] is ways[1] else self.make("phi", ways, e)
        if isinstance(e, ast.Call):
            return self.call(e, env)
        if isinstance(e, ast.NamedExpr):
            value = self.value(e.value, env)
            self.bind(e.target, value, env)
            return value
        if isinstance(e, ast.GeneratorExp | ast.ListComp):
            inner = dict(env)
            for part in e.generators:
                over = self.value(part.iter, inner)
                self.bind(part.target, self.make("item", (over, "loop"), e), inner)
            return self.make("loop", (self.value(e.elt, inner),), e)
        if isinstance(e, ast.Starred):
            return self.value(e.value, env)
        if isinstance(e, ast.BoolOp | ast.Compare):
            for part in ast.iter_child_nodes(e):
                if isinstance(part, ast.expr):
                    self.value(part, env)
            return self.make("test", (ast.unparse(e),), e)
        return self.unknown(e)

    def subscript(self, e, env):
        base = self.value(e.value, env)
        if base.op in ("tuple", "list") and isinstance(e.slice, ast.Constant):
            i = e.slice.value
            if isinstance(i, int) and -len(base.args) <= i < len(base.args):
                return base.args[i]
        if isinstance(e.slice, ast.Constant) and isinstance(e.slice.value, int):
            return self.make("item", (base, e.slice.value), e)
        return self.make("slice", (base, ast.unparse(e.slice)), e)

    def call(self, e, env):
        args = [self.value(a, env) for a in e.args]
        keywords = {k.arg: self.value(k.value, env) for k in e.keywords if k.arg}
        f = e.func
        target = None
        if isinstance(f, ast.Name) and f.id not in env:
            target = self.module.functions.get(f.id)
        elif isinstance(f, ast.Attribute) and is_name(f.value, "self") and self.cls:
            target = self.module.method(self.cls, f.attr)
            if target and "staticmethod" not in map(ast.unparse, target.node.decorator_list):
                args = [self.make("param", ("self",), e), *args]
        if target and target not in self.entered and len(self.entered) <= MAX_DEPTH:
            return self.enter(target, args, keywords, e)
        if isinstance(f, ast.Attribute):
            if is_name(f.value, "self"):
                return self.make("self." + f.attr, [*args, *keywords.values()], e)
            if ast.unparse(f.value) in (
                "torch",
                "F",
                "nn.functional",
                "torch.nn.functional",
                "np",
                "torch.linalg",
                "math",
                "torch.special",
            ):
                return self.make(f.attr, [*args, *keywords.values()], e)
            return self.make(f.attr, [self.value(f.value, env), *args, *keywords.values()], e)
        if isinstance(f, ast.Name) and f.id not in env:
            return self.make(f.id, [*args, *keywords.values()], e)
        if isinstance(f, ast.Subscript) and isinstance(f.value, ast.Attribute):
            if is_name(f.value.value, "self"):
                self.value(f.slice, env)
                return self.make(f"self.{f.value.attr}[{ast.unparse(f.slice)}]", args, e)
        return self.make("call", [self.value(f, env), *args, *keywords.values()], e)

    def enter(self, target, args, keywords, e):
        self.sites.append((target, e))
        env = dict(zip(target.params, args))
        env |= {k: v for k, v in keywords.items()}
        defaults = target.node.args.defaults
        for name, default in zip(target.params[len(target.params) - len(defaults) :], defaults):
            env.setdefault(name, self.value(default, {}))
        for name in [*target.params, *(a.arg for a in target.node.args.kwonlyargs)]:
            if name not in env:
                env[name] = self.make("param", (f"{target.name}.{name}",), e)
        returns, outer, path = [], self.outer, self.path
        self.outer = outer or e
        self.entered.append(target)
        self.run(target.node.body, env, returns)
        self.entered.pop()
        self.outer, self.path = outer, path
        returns = list(dict.fromkeys(returns))
        if not returns:
            return self.unknown(e)
        return returns[0] if len(returns) == 1 else self.make("phi", returns, e)


# --- reading graphs ---

# Calls that move or convert their first operand.
SEE_THROUGH = {
    "to",
    "float",
    "type_as",
    "type",
    "contiguous",
    "view",
    "reshape",
    "transpose",
    "permute",
    "unsqueeze",
    "squeeze",
    "expand",
    "expand_as",
    "flatten",
    "unflatten",
    "clone",
    "half",
    "cpu",
    "swapaxes",
    "movedim",
    "bfloat16",
    "double",
    "dropout",
    "clamp",
    "clamp_",
    "clip",
    "view_as",
    "reshape_as",
    "detach",
    "repeat",
    "nan_to_num",
    "rearrange",
    "maybe_to_contiguous",
    "cast",
    "minimum",
    "maximum",
    "t",
    "T",
    "mT",
    "as_tensor",
}


def peel(node, more=()):
    """`node` without what only moves or converts it; phis whose ways agree are one value."""
    while True:
        is_dropout = node.op.startswith("self.") and "drop" in node.op.lower()
        through = node.op in SEE_THROUGH or node.op in more or is_dropout
        first = next((a for a in node.args if isinstance(a, Node)), None)
        if through and first:
            node = first
            continue
        return node


def ways(node, limit=16):
    """The values that `node` may be, moves and phis removed."""
    found, queue, seen = [], [node], set()
    while queue and len(found) < limit:
        node = peel(queue.pop())
        if node.index in seen:
            continue
        seen.add(node.index)
        if node.op == "phi":
            queue += [a for a in node.args if isinstance(a, Node)]
        else:
            found.append(node)
    return found


def operands(node):
    return [a for a in node.args if isinstance(a, Node)]


def under(node, accept, depth=6):
    """Values that `node` is made of, itself first, no deeper than `depth` operations."""
    level, seen = [node], set()
    for _ in range(depth + 1):
        below = []
        for node in level:
            if node.index not in seen:
                seen.add(node.index)
                yield node
                if accept(node):
                    below += operands(node)
        level = below
