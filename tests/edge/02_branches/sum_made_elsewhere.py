# The norm reads what a loop makes of a sum, a sum of another function, or what a cast makes of it:
# each is told. In a loop's own body both may be; a parameter that is no sum is no reason.
# expect: refused add_layer_norm Loop.forward "behind it"
# expect: refused add_layer_norm Callee._adapt "in one function"
# expect: refused add_layer_norm Caller.forward "inside a call"
# expect: refused add_layer_norm Cast.forward "cast before the norm"
# expect: fused add_layer_norm Body.forward
# expect: not-fused add_layer_norm Another.*
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(8, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.norm = nn.LayerNorm(8)
        self.seen = []


class Loop(Base):
    def forward(self, x):
        h = x + self.attn(x)
        for layer in self.layers:
            h = layer(h)
        return self.norm(h)


class Body(Base):
    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
            x = x * self.norm(x)
        return x


class Callee(Base):
    def forward(self, x):
        h = self.attn(x) + x
        return self._adapt(h)

    def _adapt(self, h):
        residual = h
        h = self.norm(h)
        out = torch.zeros_like(h)
        for i, layer in enumerate(self.layers):
            out[i] = layer(h[i])
        return out + residual


class Caller(Base):
    def forward(self, x):
        h, seen = self._attend(x)
        return h + self.norm(h), seen

    def _attend(self, x):
        h = x + self.attn(x)
        self.seen.append(float(h.sum()))
        return h, len(self.seen)


class Cast(Base):
    def forward(self, x):
        h = x + self.attn(x)
        return self.norm(h.double().to(x.dtype)) + self.norm(h.to(x.dtype))


class Another(Base):
    def forward(self, x):
        h = self._adapt(self.attn(x), x + x)
        return h

    def _adapt(self, h, y):
        h = self.norm(h)
        self.seen.append(float(y.sum()))
        return h + y


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for kind in (Loop, Body, Callee, Caller, Cast, Another):
        yield kind().to(dtype)(x)
