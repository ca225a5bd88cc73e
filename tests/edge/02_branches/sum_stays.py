# Two sums that a branch joins, and a reason in each class why they cannot be made behind it: what is
# read elsewhere would be made twice, or be another object than the one that is written to later.
# expect: refused add_layer_norm Kept.forward "branch: the sum"
# expect: refused add_layer_norm KeptInBranch.forward "branch: the sum"
# expect: refused add_layer_norm Asked.forward "branch: the sum"
# expect: refused add_layer_norm Otherwise.forward "branch: the sum"
# expect: not-fused add_layer_norm WrittenBefore.forward
# expect: not-fused add_layer_norm WrittenInside.forward
# expect: refused add_layer_norm Rebound.forward "branch: the sum"
# expect: refused add_layer_norm RebindsInside.forward "branch: the sum"
# expect: refused add_layer_norm Order.forward "branch: the sum"
# expect: refused add_layer_norm Closure.forward "branch: the sum|."
# expect: not-fused add_layer_norm Turns.forward
# expect: not-fused add_layer_norm Tried.forward
# expect: refused add_layer_norm OneLine.forward "branch: the sum"
# expect: not-fused add_layer_norm Guarded.forward
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(8, 8)
        self.cross = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def rest(self, x):
        return x + self.norm(x)


# Another name holds the first sum, and sees what is written to it.
class Kept(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        kept = x
        if memory is not None:
            x = self.cross(x)
            x = residual + x
        y = self.norm(x)
        x.mul_(2)
        return x, y, kept


class KeptInBranch(Base):
    def forward(self, x, memory=None):
        residual = x
        kept = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            x = self.cross(x)
            x = residual + x
            kept = x
        y = self.norm(x)
        x.mul_(2)
        return x, y, kept


class Asked(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if x is not memory:
            x = self.cross(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + x


class Otherwise(Base):
    def forward(self, x, memory=None):
        residual = x
        kept = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            x = self.cross(memory)
            x = residual + x
        else:
            kept = x
        y = self.norm(x)
        x.mul_(2)
        return x, y, kept


class WrittenBefore(Base):
    def forward(self, x, memory=None):
        residual = x.clone()
        x = self.attn(x)
        x = residual + x
        residual.mul_(2)
        if memory is not None:
            x = self.cross(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + x


class WrittenInside(Base):
    def forward(self, x, memory=None):
        residual = x.clone()
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            x = self.cross(x)
            x = residual + x
            residual.mul_(2)
        residual = x
        x = self.norm(x)
        return residual + x


# The operands' names hold something else where the sum would be made.
class Rebound(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        residual = torch.sigmoid(residual)
        if memory is not None:
            x = self.cross(x)
            x = residual + x
        y = self.norm(x)
        return x + y, residual


class RebindsInside(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            x = self.cross(memory)
            x = residual + x
            residual = memory
        y = self.norm(x)
        return x + y, residual


# Sums of strings, tuples or tensor subclasses know their order.
class Order(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            x = self.cross(x)
            x = x + residual
        residual = x
        x = self.norm(x)
        return residual + x


class Closure(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            seen = lambda: x
            x = self.cross(seen())
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + x


class Turns(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        for _ in range(2 if memory is not None else 0):
            x = self.cross(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + x


class Tried(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            try:
                x = self.cross(memory)
                x = residual + x
            except (TypeError, RuntimeError):
                pass
        residual = x
        x = self.norm(x)
        return residual + x


class OneLine(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None: x = self.cross(x); x = residual + x  # fmt: skip
        residual = x
        x = self.norm(x)
        return residual + x


# What the branch returns early never had the sum of the rest.
class Guarded(Base):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        if memory is not None:
            x = residual + x
            return x
        return self.norm(x)


def cases(dtype):
    kinds = (Kept, KeptInBranch, Asked, Otherwise, WrittenBefore, WrittenInside, Rebound)
    kinds += (RebindsInside, Order, Closure, Turns, Tried, OneLine, Guarded)
    with torch.no_grad():
        for kind in kinds:
            layer = kind().to(dtype)
            x, memory = torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 3, 8, dtype=dtype)
            yield layer(x)
            yield layer(x, memory)
            yield lambda layer=layer, x=x: layer(x, torch.ones(3, 5, dtype=x.dtype))
