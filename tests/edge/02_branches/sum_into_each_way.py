# A sum that one way of a branch norms, with copies of it before the branch, or an `else` that
# reads it too: it and its copies move to the start of each way.
# expect: fused add_layer_norm Copied.forward "else:\n            x = residual \+ x\n            residual = x\n"
# expect: fused add_layer_norm Else.forward
# expect: fused add_layer_norm Written.forward
# expect: refused add_layer_norm Asked.forward "branch"
# expect: refused add_layer_norm AskedCopy.forward "branch"
# expect: refused add_layer_norm Elif.forward "branch"
# expect: refused add_layer_norm Between.forward "branch"
# expect: refused add_layer_norm Rebinds.forward "branch"
# expect: refused add_layer_norm Touches.forward "branch"
# expect: refused add_layer_norm Later.forward "branch"
# expect: refused add_layer_norm Other.forward "branch"
# expect: not-fused add_layer_norm Tried.forward
# expect: refused add_layer_norm OneLine.forward "branch"
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, before):
        super().__init__()
        self.attn, self.mlp = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.before = before

    def touch(self, x):
        x.mul_(2)
        return self.before


class Copied(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x

        # the MLP
        residual = x
        if self.before:
            x = self.norm(x)
        x = self.mlp(x)
        return residual + x


class Else(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x

        if self.before:
            y = self.norm(x)
            x = x + self.mlp(y)
        else:
            mask = x[..., 0] > 0
            x[mask] += self.mlp(x[mask])
        return x


# On one way the copy is written to with the sum, on the other it is not.
class Written(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        kept = x
        if self.before:
            x = self.norm(x)
        x.mul_(2)
        return x, kept


class Asked(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        residual = x
        if self.before and x.dim() > 2:
            x = self.norm(x)
        return residual + x


class AskedCopy(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        residual = x
        if self.before and residual.dim() > 2:
            x = self.norm(x)
        return residual + x


class Elif(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if self.before:
            x = self.norm(x)
        elif x.dim() > 2:
            x = self.mlp(x)
        return x


class Between(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        kept = x
        kept.mul_(2)
        if self.before:
            x = self.norm(x)
        return x, kept


# The condition gives an operand's name to another value.
class Rebinds(Base):
    def forward(self, x):
        residual = x
        y = self.attn(x)
        x = residual + y
        kept = x
        if (y := self.before) is True:
            x = self.norm(x)
        return x * (2 if y else 3), kept


# The condition writes to an operand.
class Touches(Base):
    def forward(self, x):
        residual = x.clone()
        x = self.attn(x)
        x = residual + x
        kept = x
        if self.touch(residual):
            x = self.norm(x)
        return x, kept, residual


class Later(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        kept = x
        later = lambda: kept * 2  # noqa: E731
        if self.before:
            x = self.norm(x)
        return x, later()


# The copy is of another value of the same name.
class Other(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        x = self.mlp(x)
        kept = x
        x = residual + x
        if x.dim() > 2:
            x = self.norm(x)
        return x, kept


# What the test raises lets the handler see the sum.
class Tried(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        try:
            x = residual + x
            kept = x
            if (self.before,)[x.dim() - 2]:
                x = self.norm(x)
        except IndexError:
            x = x * 3
        return x


class OneLine(Base):
    # fmt: off
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        kept = x
        if self.before: x = self.norm(x)  # noqa: E701
        return x, kept
    # fmt: on


def cases(dtype):
    kinds = (Copied, Else, Written, Asked, AskedCopy, Elif, Between, Rebinds, Touches, Later, Other)
    kinds += (Tried, OneLine)
    with torch.no_grad():
        for kind in kinds:
            for before in False, True:
                layer = kind(before).to(dtype)
                yield layer(torch.randn(2, 3, 8, dtype=dtype))
                yield layer(torch.randn(3, 8, dtype=dtype))
