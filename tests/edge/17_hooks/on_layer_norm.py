# A layer norm that an add-norm takes over, with hooks, a forward of its own, another class, weights
# that are replaced or are no parameters any more.
# expect: fused add_layer_norm Layer.forward
# expect: not-fused add_layer_norm Derived.forward
# expect: not-fused add_layer_norm OfChild.forward
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.log = []

    def forward(self, x, residual):
        x = residual + x
        residual = x
        x = self.norm(x)
        return x, residual


class Mine(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x) + 1


class Derived(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Mine(8)

    def forward(self, x, residual):
        s = residual + x
        return self.norm(s), s


class OfChild(nn.Module):
    """A derived class puts another module there and runs this method too."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x, residual):
        s = residual + x
        return self.norm(s), s


class Child(OfChild):
    def __init__(self):
        super().__init__()
        self.norm = nn.Identity()


class Tripled(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x) * 3


def cases(dtype):
    x, residual = (torch.randn(2, 3, 8, dtype=dtype) for _ in range(2))
    layer = Layer().to(dtype)
    yield layer(x, residual)
    layer.norm.register_forward_hook(lambda m, args, out: out * 2)
    layer.norm.register_forward_pre_hook(lambda m, args: layer.log.append(args[0].sum().item()))
    yield layer(x, residual)
    yield layer.log
    layer = Layer().to(dtype)
    layer.norm.forward = lambda s: s * 2
    yield layer(x, residual)
    layer.norm = Tripled(8).to(dtype)
    yield layer(x, residual)
    layer.norm = nn.Identity()
    yield layer(x, residual)
    layer.norm = None
    yield lambda: layer(x, residual)
    layer = Layer().to(dtype)
    layer.norm.weight = nn.Parameter(torch.randn(8, dtype=dtype))
    layer.norm.bias = None
    yield layer(x, residual)
    del layer.norm.weight
    layer.norm.weight = torch.randn(8, dtype=dtype)
    yield layer(x, residual)
    layer.norm.normalized_shape = (4,)
    yield lambda: layer(x, residual)
    layer = Layer().to(dtype)
    torch.nn.utils.parametrizations.weight_norm(layer.norm, "weight", dim=None)
    yield layer(x, residual)
    layer = Layer().to(torch.float32 if dtype == torch.bfloat16 else torch.bfloat16)
    yield lambda: layer(x, residual)
    for kind in (Derived, OfChild, Child):
        yield kind().to(dtype)(x, residual)
