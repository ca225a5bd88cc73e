# Chained, starred, augmented, annotated, walrus and subscript targets around the match.
# expect: either rms_norm
# expect: either act_mul
# expect: either linears
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        self.third = nn.Linear(8, 8)
        self.kept = {}


class Chained(Base):
    def forward(self, x):
        a = b = self.gate(x)
        c = self.kept["c"] = self.up(x)
        a = a * 2
        return F.silu(b) * c, a, self.kept["c"]


class Starred(Base):
    def forward(self, x):
        a, *rest = self.gate(x), self.up(x), self.third(x)
        return a, len(rest), rest[0], type(rest).__name__


class StarredCall(Base):
    def forward(self, x):
        args = [x]
        return self.gate(*args), self.up(*args), self.third(x)


class Augmented(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        kept = h
        v = h.pow(2).mean(-1, keepdim=True)
        v += self.eps
        h = h * torch.rsqrt(v)
        return self.weight * h.to(x.dtype), v, kept


class AugmentedResult(Base):
    def forward(self, x):
        y = F.silu(self.gate(x))
        z = y
        y *= self.up(x)
        return y, z


class AugmentedGate(Base):
    def forward(self, x):
        gate = self.gate(x)
        act = F.silu(gate)
        act *= self.up(x)
        return act, gate


class Annotated(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate: torch.Tensor = self.gate(x)
        up: "torch.Tensor" = self.up(x)
        late: torch.Tensor
        late = F.silu(gate) * up
        return late


class Walrus(Base):
    def forward(self, x):
        y = F.silu(gate := self.gate(x)) * (up := self.up(x))
        return y, gate, up


class WalrusInCondition(Base):
    def forward(self, x):
        if (gate := self.gate(x)).sum() > -1e9:
            up = self.up(x)
        return F.silu(gate) * up


class Attribute(Base):
    def forward(self, x):
        self.last = self.gate(x)
        up = self.up(x)
        y = F.silu(self.last) * up
        self.last = y
        return y, self.last


class Subscript(Base):
    def forward(self, x):
        out = torch.zeros(2, *x.shape, dtype=x.dtype)
        out[0] = self.gate(x)
        out[1] = self.up(x)
        return F.silu(out[0]) * out[1], out


class Swapped(Base):
    def forward(self, x):
        gate, up = self.gate(x), self.up(x)
        gate, up = up, gate
        return F.silu(gate) * up


class SelfRebound(Base):
    def forward(self, x):
        other = Base().to(x.dtype)
        gate = self.gate(x)
        self = other
        up = self.up(x)
        return F.silu(gate) * up


class TypeComment(Base):
    def forward(self, x):
        # type: (torch.Tensor) -> torch.Tensor
        gate = self.gate(x)  # type: torch.Tensor
        up = self.up(x)  # type: ignore
        return F.silu(gate) * up  # noqa: E501


class Semicolons(Base):
    def forward(self, x):
        gate = self.gate(x); up = self.up(x); n = [1]; n.append(2)
        y = F.silu(gate) * up; return y, n


class OneLine(Base):
    def forward(self, x): return F.silu(self.gate(x)) * self.up(x)


class OneLineIf(Base):
    def forward(self, x, flag=True):
        if flag: return F.silu(self.gate(x)) * self.up(x)
        return x


KINDS = [
    Chained, Starred, StarredCall, Augmented, AugmentedResult, AugmentedGate, Annotated, Walrus, WalrusInCondition,
    Attribute, Subscript, Swapped, SelfRebound, TypeComment, Semicolons, OneLine, OneLineIf,
]


def cases(dtype):
    with torch.no_grad():
        for kind in KINDS:
            x = torch.randn(3, 8, dtype=dtype)
            yield kind().to(dtype)(x)
            yield x
