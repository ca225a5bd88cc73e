"""demo_linears: each = module(x)."""

from tfrewrite.rules import Linear, Tensor, op, siblings

op("demo_linears(Tensor x, Module[] modules) -> Tensor[]")


@siblings("demo_linears(x, *modules)", at_least=2)
def each(x: Tensor, *modules: Linear):
    return tuple(module(x) for module in modules)
