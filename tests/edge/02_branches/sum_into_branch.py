# A sum before a branch that alone norms it: it moves into the branch, and where that does not run,
# into the next one or an `else`.
# expect: fused add_layer_norm Post.forward "if not self\.before:\n            x = tfr\.add_layer_norm\(x, residual, self\.norm, keep_sum=False\)\n        else:\n            x = residual \+ x\n"
# expect: fused add_layer_norm Opposite.forward x2
# expect: no-text "        else:\n            x = residual \+ x\n        return x \* 3"
# expect: fused add_layer_norm Absent.forward
# expect: fused add_layer_norm Listed.forward
# expect: refused add_layer_norm Later.forward "branch"
# expect: fused add_layer_norm Kept.forward
# expect: refused add_layer_norm Asked.forward "branch"
# expect: refused add_layer_norm Changing.forward "branch"
# expect: refused add_layer_norm Property.forward "branch"
# expect: refused add_layer_norm Rebinds.forward "branch"
# expect: refused add_layer_norm Writes.forward "branch"
# expect: refused add_layer_norm Beside.forward "branch"
# expect: not-fused add_layer_norm While.forward
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, before=False):
        super().__init__()
        self.attn = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.other = nn.LayerNorm(8)
        self.before = before
        self.asked = 0


class Post(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if not self.before:
            x = self.norm(x)
        return x * 2


class Opposite(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if not self.before:
            x = self.norm(x)

        if self.before:
            x = self.other(x)
        return x * 3


class Absent(nn.Module):
    def __init__(self, before=False):
        super().__init__()
        if before:
            self.norm = nn.LayerNorm(8)
        else:
            self.norm = None

    def forward(self, x):
        y = x.sigmoid()
        x = x + y
        if self.norm is not None:
            x = self.norm(x)
        return x


# What a generator goes over is read at once.
class Listed(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if not self.before:
            x = self.norm(x)
        return tuple(v for v in [x, None] if v is not None)


# What it makes of that is read when it is asked.
class Later(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        later = (x * v for v in [2])
        if not self.before:
            x = self.norm(x)
        return next(later)


class Kept(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        kept = x
        if not self.before:
            x = self.norm(x)
        x.mul_(2)
        return x, kept


class Asked(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if x.shape[-1] > 4:
            x = self.norm(x)
        return x


# The flag of the second branch is not that of the first.
class Changing(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if not self.before:
            x = self.norm(x)
            self.before = True
        if self.before:
            x = self.other(x)
        return x


class Property(Base):
    @property
    def turn(self):
        self.asked += 1
        return self.asked % 3 == 0

    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if not self.turn:
            x = self.norm(x)
        if self.turn:
            x = self.other(x)
        return x


class Rebinds(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        if not self.before:
            residual = self.other(residual)
            x = self.norm(x)
        return x, residual


class Writes(Base):
    def forward(self, x):
        residual = x.clone()
        x = self.attn(x)
        x = residual + x
        if not self.before:
            residual.mul_(2)
            x = self.norm(x)
        return x, residual


class Beside(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        y = x.clone()
        if not self.before:
            y = self.norm(x)
        return y


class While(Base):
    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        turns = 0
        while turns < 2 * self.before:
            x = self.norm(x)
            turns += 1
        return x


def cases(dtype):
    kinds = (Post, Opposite, Absent, Listed, Later, Kept, Asked, Changing, Property, Rebinds)
    with torch.no_grad():
        for kind in kinds + (Writes, Beside, While):
            for before in False, True:
                layer = kind(before).to(dtype)
                yield layer(torch.randn(2, 3, 8, dtype=dtype))
                yield layer(torch.randn(3, 8, dtype=dtype))
