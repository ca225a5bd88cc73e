# What is no sum on one way of a branch, a norm that is not quite nn.LayerNorm, and sums where
# nothing may be changed: each is told.
# expect: refused add_layer_norm OneWay.forward "one way of a branch"
# expect: refused add_layer_norm OwnNorm.forward "nn.LayerNorm itself"
# expect: not-fused add_layer_norm Off.forward
# expect: not-fused add_layer_norm OffInside.forward
import torch
import torch.nn.functional as F
from torch import nn


class Offset(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight + 1.0, self.bias, self.eps)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(8, 8)
        self.cross = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.offset = Offset(8)


class OneWay(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        if memory is not None:
            x = residual + x
        return self.norm(x)


class OwnNorm(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        residual = x
        x = self.offset(x)
        return residual + x


class Off(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        # tfrewrite: off
        x = residual + x
        # tfrewrite: on
        if memory is not None:
            x = self.cross(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + x


class OffInside(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            # tfrewrite: off
            x = self.cross(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + x


def cases(dtype):
    x, memory = torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 3, 8, dtype=dtype)
    for kind in (OneWay, OwnNorm, Off, OffInside):
        layer = kind().to(dtype)
        yield layer(x)
        yield layer(x, memory)
