"""What could be fused in the modeling files of transformers, by the shape of their computations.

    python tests/corpus/candidates.py [MODELS_DIR]          how the list differs from the checked-in one
    python tests/corpus/candidates.py [MODELS_DIR] --write  write it anew; review the diff

Independent of the program (dataflow.py): percentages of coverage are of this list. Families:

    rms_norm     a class or function that divides by the root of the mean (or sum) of squares
    gated_norm   such a class whose forward multiplies by an activation of a second input
    glu          an activation of one projection times another, or of two parts of one
    projections  two or more linear layers of one class called with one input under one condition
    rope         a call of a function that rotates, or a rotation written out
    residual     a sum that is normalised and used again
    softcap      tanh of a quotient, multiplied again
"""

import argparse
import ast
import json
import sys
from collections import Counter
from pathlib import Path

import corpus
from dataflow import Graph, Module, Node, operands, peel, under, ways

# --- RMS norms ---


def is_square(node):
    node = peel(node)
    if node.op in ("pow", "Pow"):
        return len(node.args) > 1 and is_const(node.args[1], ("2", "2.0"))
    if node.op == "square":
        return True
    if node.op in ("Mult", "mul", "multiply"):
        a, b = (peel(x) for x in operands(node)[:2]) if len(operands(node)) > 1 else (0, 1)
        return a is b
    return False


def is_const(node, texts):
    node = peel(node)
    if node.op == "USub":
        node, minus = peel(node.args[0]), "-"
    else:
        minus = ""
    return node.op == "const" and minus + node.args[0] in texts


def squared(node):
    return peel(operands(peel(node))[0])


def is_centred(node):
    """x - mean(x): a LayerNorm's."""
    return any(
        n.op in ("Sub", "sub") and len(n.args) > 1 and is_mean(n.args[1])
        for n in under(node, lambda n: n.op not in ("param",), 2)
    )


def is_mean(node):
    return any(w.op == "mean" for w in ways(node)) if isinstance(node, Node) else False


ROOT_STEPS = {
    "Add",
    "add",
    "clamp",
    "Mult",
    "Div",
    "to",
    "float",
    "clamp_min",
    "maximum",
    "sum",
    "mean",
}


def mean_square(node):
    """The kind of mean of squares in the argument of a root, and what is squared."""
    for part in under(
        node,
        lambda n: n.op in ROOT_STEPS or n.op in ("phi", "all_reduce"),
        5,
    ):
        part = peel(part)
        if part.op in ("mean", "sum") and operands(part) and is_square(operands(part)[0]):
            source = squared(operands(part)[0])
            if not is_centred(source):
                return ("rms" if part.op == "mean" else "l2"), source
    return None


NORM_CALLS = {"norm", "vector_norm", "normalize"}


def norms(graph):
    """(kind, line) of each RMS norm that the function computes."""
    found = []
    for node in graph.nodes:
        hit = None
        if node.op in ("rsqrt", "rsqrt_", "sqrt", "sqrt_"):
            hit = mean_square(operands(node)[0]) if operands(node) else None
        elif node.op in ("pow", "Pow") and len(node.args) > 1:
            if is_const(node.args[1], ("-0.5", "0.5")):
                hit = mean_square(node.args[0])
        elif node.op in ("rms_norm", "RMSNorm"):
            hit = ("torch", None)
        elif any(a.op == "tuple" for a in operands(node)):
            continue  # over several dimensions
        elif node.op == "normalize" and operands(node):
            hit = ("l2", None)
        elif node.op in ("norm", "vector_norm") and operands(node):
            source = ways(operands(node)[0])
            if is_divisor(node, source) and not any(is_centred(s) for s in source):
                hit = ("l2", None)
        if hit and (hit[0] == "torch" or scales(node, hit[1])):
            found.append((hit[0], node))
    return found


def is_divisor(norm, source):
    """x / norm(x), with an epsilon or a lower bound at most."""
    queue, seen = [norm], set()
    while queue:
        node = queue.pop()
        for user in users(node):
            if user.index in seen:
                continue
            seen.add(user.index)
            if user.op in ("Div", "div") and any(w in source for w in ways(operands(user)[0])):
                return True
            if user.op in ("Add", "clamp", "clamp_min", "Mult", "maximum"):
                queue.append(user)
    return False


def users(node, depth=3):
    """Users of `node`, through what only moves it."""
    found, queue = [], [(node, 0)]
    while queue:
        node, level = queue.pop()
        for user in node.users:
            found.append(user)
            if level < depth and (peel(user) is not user or user.op in ("phi", "USub")):
                queue.append((user, level + 1))
    return found


def scales(root, source):
    """Is the squared tensor multiplied or divided by the root?"""
    steps = ("Add", "Mult", "Div", "reciprocal", "clamp_min", "clamp", "mul", "div", "truediv")
    level, seen = [root], set()
    for _ in range(4):
        above = []
        for node in level:
            for user in users(node):
                if user.index in seen:
                    continue
                seen.add(user.index)
                if user.op in ("Mult", "Div", "mul", "div", "mul_", "truediv", "multiply"):
                    others = [w for a in operands(user) for w in ways(a)]
                    if source is None or any(w is s for w in others for s in ways(source)):
                        return True
                if user.op in steps:
                    above.append(user)
        level = above
    return False


def has_weight(module, cls):
    return any(
        "Parameter" in ast.unparse(e) or "Embedding" in ast.unparse(e)
        for c in module.bases(cls)
        for values in c.attributes.values()
        for e in values
    )


ACTIVATIONS = {
    "silu", "gelu", "relu", "sigmoid", "tanh", "swish", "quick_gelu", "mish", "softplus", "elu",
    "leaky_relu", "silu_", "relu_", "gelu_new", "hardswish", "sigmoid_", "selu", "logsigmoid", "xielu",
}  # fmt: skip


def activated(module, cls, node):
    """What an activation is applied to, if `node` is one."""
    node = peel(node)
    of = operands(node)
    if not of:
        return None
    if node.op in ACTIVATIONS:
        return of[0]
    if node.op.startswith("self.") and is_activation_attribute(module, cls, node.op[5:]):
        return of[0]
    if node.op == "call" and len(of) > 1 and "ACT2FN" in origin(of[0]):
        return of[1]
    if node.op in ("Mult", "mul") and len(of) > 1:
        for x, other in ((of[0], peel(of[1])), (of[1], peel(of[0]))):
            if other.op == "sigmoid" and operands(other):
                scaled = under(operands(other)[0], lambda n: n.op == "Mult", 2)
                if any(w in ways(x) for n in scaled for w in ways(n)):
                    return x  # x * sigmoid(c * x)
    if node.op in ("pow", "Pow", "square"):
        return activated(module, cls, of[0])
    return None


def origin(node):
    texts = [n.args[0] for n in under(node, lambda n: True, 3) if n.op == "global"]
    return " ".join(texts)


def is_activation_attribute(module, cls, attr):
    attr = attr.split("[")[0]
    for e in module.attribute(cls, attr):
        text = ast.unparse(e)
        if "ACT2FN" in text or "get_activation" in text or "ACT2CLS" in text:
            return True
        name = text.split("(")[0].split(".")[-1]
        if name.lower() in ACTIVATIONS or name in ACT_CLASSES:
            return True
    return not module.attribute(cls, attr) and (
        "act_fn" in attr or attr in ("activation_fn", "activation", "act")
    )


ACT_CLASSES = {
    "SiLU", "GELU", "ReLU", "Sigmoid", "Tanh", "QuickGELUActivation", "Mish", "NewGELUActivation",
    "GELUActivation", "SiLUActivation", "PytorchGELUTanh", "GELUTanh", "ReLUSquaredActivation", "LeakyReLU",
}  # fmt: skip


# --- GLU ---


def linear_attribute(module, cls, attr):
    base = attr.split("[")[0]
    for e in module.attribute(cls, base):
        text = ast.unparse(e)
        head = text.split("(")[0].split(".")[-1]
        # by its end: "Linear" may be a word of the architecture's name
        if head.endswith(("Linear", "LinearLayer", "ParallelExperts")) or head == "Conv1D":
            return True
        if "[" in attr or head in ("ModuleList", "Sequential", "ModuleDict"):
            if "nn.Linear(" in text and head == "ModuleList":
                return True
    return False


def is_linear(module, cls, node):
    if node.op.startswith("self."):
        return linear_attribute(module, cls, node.op[5:])
    if node.op in PRODUCTS:  # with a parameter of the class: a projection
        return any(is_parameter(a) for a in operands(node)[:3])
    return node.op == "linear"


PRODUCTS = {
    "matmul", "MatMult", "bmm", "einsum", "mm", "_grouped_linear", "grouped_mm", "_grouped_mm",
}  # fmt: skip


def is_parameter(node):
    """self.weight, or a part of it."""
    node = parts(node)
    return node.op == "attr" and operands(node)[0].args == ("self",)


SMALL_STEPS = {
    "Add",
    "Sub",
    "item",
    "chunk",
    "split",
    "slice",
    "unbind",
    "mul_",
    "add",
    "split_with_sizes",
    "tensor_split",
    "tuple",
    "select",
    "narrow",
}


def projections_under(module, cls, node):
    """Linear outputs that `node` is a part of, a shift of or a clamp of."""
    found, queue, seen = [], list(ways(node)), set()
    while queue:
        node = queue.pop()
        if node.index in seen or len(seen) > 40:
            continue
        seen.add(node.index)
        if is_linear(module, cls, node):
            found.append(node)
        elif node.op in SMALL_STEPS or is_scale(node):
            queue += [w for a in operands(node)[:2] for w in ways(a)]
        elif node.op.startswith("self.") and is_plain_attr(node.op):
            queue += [w for a in operands(node)[:1] for w in ways(a)]
        elif node.op == "reshape" or node.op == "attr":
            queue += [w for a in operands(node)[:1] for w in ways(a)]
    return found


def is_plain_attr(op):
    return "conv" in op or "identity" in op.lower()


def is_scale(node):
    """A product with a number or a parameter of the class."""
    return node.op in ("Mult", "Div", "mul") and any(
        all(x.op != "param" or x.args[0] == "self" for x in under(w, lambda n: True, 4))
        for a in operands(node)
        for w in ways(a)
    )


def glus(module, cls, graph):
    """(the product, the projections that it is of) of each."""
    for node in graph.nodes:
        if node.op == "glu" and operands(node):
            linears = projections_under(module, cls, operands(node)[0])
            if linears:
                yield node, linears
        elif node.op in ("Mult", "mul", "mul_", "multiply") and len(operands(node)) > 1:
            left, right = operands(node)[:2]
            linears = gated(module, cls, left, right) or gated(module, cls, right, left)
            if linears:
                yield node, linears


def gated(module, cls, left, right):
    """The projections of act(gate) * up."""
    up = projections_under(module, cls, right)
    for way in ways(left) if up else []:
        act = activated(module, cls, way)
        if not act or any(w in ways(right) for w in ways(act)):
            continue  # x * sigmoid(x) is an activation
        gate = projections_under(module, cls, act)
        if gate:
            return gate + up
    return None


def is_experts(node, linears):
    """Weights picked per expert: three-dimensional parameters, or lists of modules."""
    for linear in linears:
        if linear.op in ("bmm", "einsum", "_grouped_linear", "grouped_mm", "_grouped_mm"):
            return True
        if linear.op.startswith("self.") and ("[" in linear.op or len(operands(linear)) > 1):
            return True
        if linear.op in ("linear", "matmul", "MatMult") and len(operands(linear)) > 1:
            weight = peel(operands(linear)[1])
            if weight.op in ("slice", "item") or (weight.op == "attr" and linear.op != "linear"):
                return True
    return False


# --- same-input projections ---

ATTENTION = (
    "softmax", "scaled_dot_product", "attention_interface", "attention_fn", "attention_forward",
    "flash_attn", "delta_rule", "delta_attention", "linear_attn", "attn_fn", "attention_function",
)  # fmt: skip


def is_attention(module, cls, graphs):
    """Does it compute attention, or a linear form of it?"""
    names = {n.op.lower() for g in graphs for n in g.nodes}
    names |= {n.args[0].lower() for g in graphs for n in g.nodes if n.op == "global"}
    names |= {site[0].name for g in graphs for site in g.sites}
    return any(a in n for n in names for a in ATTENTION)


def projection_groups(module, cls, graph, taken):
    groups = {}
    for node in graph.nodes:
        if not node.op.startswith("self.") or not linear_attribute(module, cls, node.op[5:]):
            continue
        if "[" in node.op or not operands(node) or node.index in taken:
            continue
        groups.setdefault(operands(node)[0].index, []).append(node)
    for nodes in groups.values():
        paths = {}
        for node in nodes:
            paths.setdefault(node.path, []).append(node)
        paths = {p: v for p, v in paths.items() if len({n.op for n in v}) > 1}
        if paths:
            yield max(paths.values(), key=lambda v: len({n.op for n in v}))


def is_key_value(nodes):
    names = sorted({n.op[5:].lower().removeprefix("to_").removeprefix("w") for n in nodes})
    initials = [n.lstrip("_")[:1] for n in names]
    return len(names) == 2 and initials == ["k", "v"]


# --- rotary embeddings ---


def parts(node):
    """What `node` is a part of."""
    node = peel(node)
    while node.op in (
        "item",
        "slice",
        "chunk",
        "split",
        "unbind",
        "select",
        "narrow",
        "tensor_split",
        "split_with_sizes",
    ) and operands(node):
        node = peel(operands(node)[0])
    return node


def is_turn(node):
    """cat or stack of (-x2, x1) or (x2, -x1)."""
    if node.op not in ("cat", "stack", "concat", "concatenate") or not operands(node):
        return False
    pair = operands(node)[0]
    if pair.op not in ("tuple", "list") or len(pair.args) != 2:
        return False
    first, second = (peel(a) for a in pair.args)
    if second.op in ("USub", "neg"):
        first, second = second, first
    if first.op in ("USub", "neg") and second.op not in ("USub", "neg"):
        return parts(operands(first)[0]) is parts(second)
    return False


def is_matrix(node):
    """stack of (cos, -sin, sin, cos)."""
    if node.op != "stack" or not operands(node) or len(operands(node)[0].args) != 4:
        return False
    a, b, c, d = (peel(x) for x in operands(operands(node)[0]))
    return a is d and b.op in ("USub", "neg") and peel(operands(b)[0]) is c


def products(node):
    """The factors of a product, moves removed."""
    node = peel(node)
    if node.op in ("Mult", "mul", "mul_") and len(operands(node)) > 1:
        return [w for a in operands(node)[:2] for w in ways(a)]
    return None


def rotations(graph):
    """Nodes where something is rotated."""
    found = []
    for node in graph.nodes:
        if (is_turn(node) or is_matrix(node)) and any(
            u.op in ("Mult", "mul", "mul_") for u in users(node)
        ):
            found.append(node)
        elif node.op in ("Sub", "sub") and len(operands(node)) > 1:
            a, b = (products(x) for x in operands(node)[:2])
            if a and b and len(a) > 1 and len(b) > 1 and is_crossed(graph, a, b):
                found.append(node)
        elif node.op in ("Mult", "mul") and len(operands(node)) > 1:
            if any(w.op == "view_as_complex" for a in operands(node) for w in ways(a)):
                found.append(node)
        elif node.op == "addcmul_" or node.op == "addcmul":
            if any(is_turn(n) or n.op in ("USub", "neg") for n in under(node, lambda n: True, 3)):
                found.append(node)
    return found


def is_crossed(graph, a, b):
    """a: x1, cos; b: x2, sin. Is there x2 * cos + x1 * sin as well?"""
    sums = getattr(graph, "sums", None)
    if sums is None:
        sums = graph.sums = []
        for node in graph.nodes:
            if node.op in ("Add", "add") and len(operands(node)) > 1:
                pair = [products(x) for x in operands(node)[:2]]
                if all(pair):
                    sums.append([{w.index for w in p} for p in pair])
    want = {w.index for w in a}, {w.index for w in b}
    for p, q in sums:
        for p1, q1 in ((p, q), (q, p)):
            if p1 & want[0] and p1 & want[1] and q1 & want[0] and q1 & want[1]:
                return True
    return False


# --- residual sums ---


def norm_attribute(module, cls, attr, rms_classes):
    """ "rms", "layer" or None."""
    for e in module.attribute(cls, attr.split("[")[0]):
        text = ast.unparse(e)
        for head in (
            part.split("(")[0].split(".")[-1].strip()
            for part in text.split(" if ")[0].split("else")
        ):
            if head in rms_classes or head == "RMSNorm":
                return "rms"
            if head in ("LayerNorm", "ModuleList") or "LayerNorm" in head:
                return "layer" if head != "ModuleList" or "LayerNorm" in text else None
    return None


def residuals(module, cls, graph, rms_classes):
    for node in graph.nodes:
        if not node.op.startswith("self.") or not operands(node):
            continue
        kind = norm_attribute(module, cls, node.op[5:], rms_classes)
        if not kind:
            continue
        total = operands(node)[0]
        while total.op in ("to", "contiguous", "float"):
            total = operands(total)[0]
        sums = [
            w
            for w in ([total] if total.op != "phi" else total.args)
            if isinstance(w, Node) and w.op in ("Add", "add", "add_")
        ]
        if not sums:
            continue
        if is_kept(graph, node, total):
            yield kind, node


def is_kept(graph, norm, total):
    """Is the sum used apart from its norm: in another computation, or returned?"""
    queue, seen = list(total.users), set()
    while queue:
        user = queue.pop()
        if user is norm or user.op == norm.op or user.index in seen:
            continue
        seen.add(user.index)
        if user.op not in ("phi", "tuple", "to", "contiguous", "float"):
            return True
        queue += user.users
    passed = seen | {total.index}
    return any(r.index in passed for r in graph.returns)


# --- all of a file ---


def census(text):
    """class -> family -> list of [line, kind]; "" is the module."""
    module = Module(text)
    table = {}

    def add(cls, family, line, kind):
        rows = table.setdefault(cls, {}).setdefault(family, [])
        if [line, kind] not in rows:
            rows.append([line, kind])

    functions = {name: Graph(module, m) for name, m in module.functions.items()}
    rotating = {name for name, g in functions.items() if rotations(g)}
    capping = {name for name, g in functions.items() if softcaps(g)}
    rms_classes = set()
    graphs = {}
    for name, cls in module.classes.items():
        graphs[name] = [Graph(module, m) for n, m in cls.methods.items() if n not in SKIPPED]
    for name, cls in module.classes.items():
        find_norms(module, cls, graphs[name], add, rms_classes)
    for name, graph in functions.items():
        kinds = norms(graph)
        if kinds and "flash" not in name:
            add("", "rms_norm", kinds[0][1].line, "function:" + name)
        for node in softcaps(graph):
            add("", "softcap", node.line, "function:" + name)
    for c in list(module.classes.values()):
        if any(b.name in rms_classes for b in module.bases(c)):
            rms_classes.add(c.name)
    for cls in module.classes.values():
        find_blocks(module, cls, graphs[cls.name], rms_classes, rotating, add)
        for graph in graphs[cls.name]:
            called = [c.lineno for t, c in graph.sites if t.owner is None and t.name in capping]
            for node in softcaps(graph):
                if node.line not in called:  # else counted in the function
                    add(cls.name, "softcap", node.line, "inline")
    return {c: {f: sorted(r) for f, r in sorted(fs.items())} for c, fs in sorted(table.items())}


SKIPPED = {"__init__", "_init_weights", "extra_repr", "generate", "prepare_inputs_for_generation"}


def find_blocks(module, cls, graphs, rms_classes, rotating, add):
    """Everything but norms. A method that another one calls is read there."""
    called = {site[0].name for g in graphs for site in g.sites if site[0].owner}
    attention = is_attention(module, cls, graphs)
    for graph in graphs:
        if graph.method.name in called and graph.method.name != "forward":
            continue
        taken = set()
        for node, linears in glus(module, cls, graph):
            taken |= {n.index for n in linears}
            packed = len({n.index for n in linears}) == 1
            kind = "moe" if is_experts(node, linears) else "packed" if packed else "two"
            add(cls.name, "glu", node.line, kind)
        for group in projection_groups(module, cls, graph, taken):
            kind = "other" if not attention else "kv" if is_key_value(group) else "attention"
            names = ",".join(dict.fromkeys(n.op[5:] for n in group))
            add(cls.name, "projections", min(n.line for n in group), f"{kind}:{names}")
        for kind, node in residuals(module, cls, graph, rms_classes):
            own = node.owner.owner is cls  # in a method of the class: where it stands
            add(cls.name, "residual", node.own_line if own else node.line, kind)
        find_ropes(cls.name, graph, rotating, add)


def softcaps(graph):
    return [
        node
        for node in graph.nodes
        if node.op == "tanh"
        and any(w.op in ("Div", "div") for a in operands(node) for w in ways(a))
        and any(user.op in ("Mult", "mul") for user in users(node))
    ]


def find_norms(module, cls, graphs, add, rms_classes):
    for graph in graphs:
        kinds = norms(graph)
        if not kinds or cls.name in rms_classes and graph.method.name != "forward":
            continue
        is_norm = is_norm_class(module, cls, graph)
        kind, node = kinds[0]
        if is_norm and gate_of(module, cls, graph):
            add(cls.name, "gated_norm", node.line, kind)
        elif is_norm and graph.method.name in ("forward", "__call__"):
            weighted = has_weight(module, cls)
            add(cls.name, "rms_norm", node.line, kind if weighted else kind + ":no_weight")
        elif graph.method.name == "forward":
            add(cls.name, "rms_norm", node.line, "inline:" + kind)
            continue
        else:
            continue
        rms_classes.add(cls.name)


def is_norm_class(module, cls, graph):
    """Its forward normalises its input and does nothing else: no linear layer, no other module."""
    if len(graph.method.params) > 2 and not any(n.op in ("mean", "rms_norm") for n in graph.nodes):
        return False
    return not any(
        n.op.startswith("self.")
        and n.op != "self._norm"
        and operands(n)
        and not is_activation_attribute(module, cls, n.op[5:])
        for n in graph.nodes
    ) and not any(
        n.op in ("matmul", "linear", "MatMult", "einsum", "softmax", "conv1d", "cat")
        for n in graph.nodes
    )


def gate_of(module, cls, graph):
    """A parameter of forward, an activation of which is multiplied in."""
    for node in graph.nodes:
        if node.op in ("Mult", "mul"):
            for a in operands(node):
                for way in ways(a):
                    act = activated(module, cls, way)
                    if act and any(w.op == "param" for w in ways(act)):
                        return True
    return False


def find_ropes(name, graph, rotating, add):
    calls = [(t, c) for t, c in graph.sites if t.owner is None and t.name in rotating]
    for target, call in calls:
        add(name, "rope", call.lineno, target.name)
    for node in rotations(graph)[:1] if not calls else []:
        add(name, "rope", node.line, "inline")


def census_files(folder):
    return {
        path: found
        for path in corpus.modeling_files(folder)
        if (found := census((folder / path).read_text(encoding="utf-8")))
    }


def totals(table):
    counts = Counter()
    for classes in table.values():
        for families in classes.values():
            for family, rows in families.items():
                for _, kind in rows:
                    counts[family, kind.split(":")[0]] += 1
    return counts


def list_path():
    return Path(__file__).resolve().parent / f"candidates_{corpus.version()}.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--write", action="store_true", help="write the list")
    options = parser.parse_args()
    text = corpus.dump(census_files(options.folder or corpus.models_dir()))
    same = list_path().exists() and list_path().read_text() == text
    if options.write:
        list_path().write_text(text)
    for key, count in sorted(totals(json.loads(text)).items()):
        print(*key, count)
    print(f"{list_path().name} is {'up to date' if same else 'different'}")
    return 0 if same or options.write else 1


if __name__ == "__main__":
    sys.exit(main())
