# A sum whose norm is of a class of its own: each says what the norm would have to be. A block that
# norms inside is no norm, and nothing is said of it.
# expect: refused add_rms_norm Weightless.forward "is not one rms_norm"
# expect: refused add_rms_norm Root.forward "is not one rms_norm"
# expect: refused add_rms_norm OneOfTwo.forward "bound twice or under a condition"
# expect: refused add_layer_norm Derived.forward "nn.LayerNorm itself"
# expect: refused add_layer_norm InWith.forward "nn.LayerNorm itself"
# expect: refused add_layer_norm Adaptive.forward "nn.LayerNorm itself"
# expect: refused add_layer_norm Centered.forward "nn.LayerNorm itself"
# expect: not-fused add_layer_norm Inside.forward
# expect: fused l2_norm Divided.forward "form=.mean_sqrt"
# expect: refused l2_norm ByHand.forward "computed twice"
# expect: not-fused add_rms_norm Inside.forward
# expect: no-text "tfr\.add_"
# expect: fused rms_norm Scaled.forward "unrounded"
# expect: fused rms_norm Bound.forward
import torch
import torch.nn.functional as F
from torch import nn


class Scaled(nn.Module):
    def __init__(self, size, scaled):
        super().__init__()
        self.scaled = scaled
        if scaled:
            self.weight = nn.Parameter(torch.rand(size))

    def forward(self, x):
        h = x.float()
        h = h * torch.pow(h.pow(2).mean(-1, keepdim=True) + 1e-6, -0.5)
        if self.scaled:
            h = h * self.weight.float()
        return h.type_as(x)


class Divided(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size))

    def forward(self, x):
        return x / torch.sqrt(torch.mean(torch.square(x), -1, keepdim=True) + 1e-5) * self.weight


if torch.__version__ < "2":
    from torch.nn import RMSNorm as Bound
else:

    class Bound(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(size))

        def forward(self, x):
            h = x.float()
            return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Dtype(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x).to(x.dtype)


class Without(nn.LayerNorm):
    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            return F.layer_norm(x, self.normalized_shape, self.weight + 1.0, self.bias, self.eps)


class Conditioned(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate, self.shift = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x, condition):
        gate, shift = torch.sigmoid(self.gate(condition)), self.shift(condition)
        return (gate * F.layer_norm(x.float(), (8,)) + shift).to(x.dtype)


class ByHand(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(size)), nn.Parameter(torch.rand(size))

    def forward(self, x):
        u = x.mean(-1, keepdim=True)
        s = (x - u).pow(2).mean(-1, keepdim=True)
        return self.weight * ((x - u) / torch.sqrt(s + 1e-6)) + self.bias


class Transition(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(size), nn.Linear(size, size)

    def forward(self, x):
        return self.up(self.norm(x))


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp = nn.Linear(8, 8), nn.Linear(8, 8)
        self.yes, self.no = Scaled(8, True), Scaled(8, False)
        self.root, self.bound = Divided(8), Bound(8)
        self.derived, self.within, self.by_hand = Dtype(8), Without(8), ByHand(8)
        self.adaptive, self.transition = Conditioned(8), Transition(8)


class Weightless(Base):
    def forward(self, x):
        x = x + self.attn(x)
        y = x + self.mlp(self.no(x))
        return y + self.mlp(self.yes(y))


class Root(Base):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.root(x))


class OneOfTwo(Base):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.bound(x))


class Derived(Base):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.derived(x))


class InWith(Base):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.within(x))


class Adaptive(Base):
    def forward(self, x):
        condition = x
        x = x + self.attn(x)
        return x + self.mlp(self.adaptive(x, condition))


class Centered(Base):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.by_hand(x))


class Inside(Base):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.transition(x)


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for kind in (Weightless, Root, OneOfTwo, Derived, InWith, Adaptive, Centered, Inside):
        yield kind().to(dtype)(x)
