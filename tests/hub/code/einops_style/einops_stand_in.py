# Enough of a rearrange for the patterns below: names, ellipsis-free, one level of parentheses.
import re


def _axes(text):
    return [word.strip("()").split() for word in re.findall(r"\([^)]*\)|\S+", text)]


def rearrange(tensor, pattern, **sizes):
    left, right = (_axes(side) for side in pattern.split("->"))
    sizes = dict(sizes)
    for group, size in zip(left, tensor.shape):
        known = 1
        for name in group:
            known *= sizes.get(name, 1)
        for name in group:
            sizes.setdefault(name, size // known)
    names = [name for group in left for name in group]
    tensor = tensor.reshape([sizes[name] for name in names])
    tensor = tensor.permute([names.index(name) for group in right for name in group])
    shape = []
    for group in right:
        size = 1
        for name in group:
            size *= sizes[name]
        shape.append(size)
    return tensor.reshape(shape)
