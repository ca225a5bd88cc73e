# An in-place sum before an nn.LayerNorm writes into the caller's tensor; a sum whose operands are
# kept by others, or that is read again, must stay as it is beside the fused norm.
# expect: refused add_layer_norm InPlace.forward "in place"
# expect: fused add_layer_norm Kept.forward "x, residual = tfr\.add_layer_norm\(x, residual, self\.norm\)"
# expect: fused add_layer_norm Alone.forward "keep_sum=False"
# expect: fused add_layer_norm Both.forward
# expect: fused add_layer_norm Loop.forward
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm, self.other = nn.LayerNorm(8), nn.LayerNorm(8, eps=0.5)


class InPlace(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        residual += x
        return self.norm(residual), residual


class Kept(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        residual = x
        x = self.norm(x)
        return residual + self.mlp(x)


class Alone(Base):
    def forward(self, x):
        y = self.attn(x)
        y = self.norm(y + x)
        x.mul_(2)  # what the caller holds, after its last use here
        return y


class Both(Base):
    """Two norms of one sum: one takes the sum along."""

    def forward(self, x):
        s = x + self.attn(x)
        return self.norm(s) + self.other(s), s


class Loop(Base):
    """The sum of one turn is read in the next one."""

    def forward(self, x):
        y = x
        for _ in range(3):
            x = x + self.attn(y)
            y = self.norm(x)
        return y


def cases(dtype):
    for kind in (InPlace, Kept, Alone, Both, Loop):
        layer, x = kind().to(dtype), torch.randn(2, 3, 8, dtype=dtype)
        with torch.no_grad():
            yield layer(x)
            yield x
