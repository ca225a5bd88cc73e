# Loops that carry values, try and finally, with, match, early return, return in the middle,
# conditional expressions.
# expect: either rms_norm
# expect: either act_mul
# expect: either linears
# expect: fused l2_norm AutocastOff.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn
import contextlib


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        self.log = []


class Carried(Base):
    def forward(self, x):
        y = x
        for i in range(3):
            gate = self.gate(y)
            up = self.up(x)
            y = F.silu(gate) * up
        return y, gate


class CarriedFromBefore(Base):
    def forward(self, x):
        up = x
        ys = []
        for i in range(3):
            ys.append(F.silu(self.gate(x)) * up)
            up = self.up(x)
        return ys, up


class WhileElse(Base):
    def forward(self, x):
        n = 0
        while n < 2:
            x = F.silu(self.gate(x)) * self.up(x)
            n += 1
        else:
            n = -1
        return x, n


class Break(Base):
    def forward(self, x):
        for n in range(3):
            gate = self.gate(x)
            if n == 1:
                break
            up = self.up(x)
            x = F.silu(gate) * up
        return x, gate, up


class Continue(Base):
    def forward(self, x):
        up = x
        for n in range(3):
            gate = self.gate(x)
            if n == 1:
                continue
            up = self.up(x)
            x = F.silu(gate) * up
        return x, gate, up


class TryFinally(Base):
    def forward(self, x):
        try:
            gate = self.gate(x)
            up = self.up(x)
            return F.silu(gate) * up
        finally:
            self.log.append("finally")


class TryExcept(Base):
    def forward(self, x):
        gate = up = x
        try:
            gate = self.gate(x)
            if x.sum() > -1e9:
                raise KeyError
            up = self.up(x)
        except KeyError:
            up = gate * 2
        return F.silu(gate) * up


class TryPart(Base):
    def forward(self, x, y):
        gate = x
        try:
            gate = self.gate(x)
            up = self.up(y)
        except RuntimeError:
            return gate
        return F.silu(gate) * up


class NoGrad(Base):
    def forward(self, x):
        gate = self.gate(x)
        with torch.no_grad():
            up = self.up(x)
        return F.silu(gate) * up


class NoGradAct(Base):
    def forward(self, x):
        gate, up = self.gate(x), self.up(x)
        with torch.no_grad():
            gate = F.silu(gate)
        return gate * up


class AutocastOff(Base):
    def forward(self, x):
        with torch.autocast(device_type="cpu", enabled=False):
            h = x.to(torch.float32)
            v = h.pow(2).mean(-1, keepdim=True)
            h = h * torch.rsqrt(v + self.eps)
        return self.weight * h.to(x.dtype)


class AutocastOn(Base):
    def forward(self, x):
        gate = self.gate(x)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            up = self.up(x)
        return F.silu(gate) * up


class Suppress(Base):
    def forward(self, x):
        up = x
        with contextlib.suppress(ValueError):
            gate = self.gate(x)
            if len(x) == 3:
                raise ValueError
            up = self.up(x)
        return F.silu(gate) * up


class Match(Base):
    def forward(self, x):
        gate = self.gate(x)
        match len(x):
            case 3:
                up = self.up(x)
            case n if n > 5:
                up = x
            case _:
                up = x * 2
        return F.silu(gate) * up


class MatchBinds(Base):
    def forward(self, x):
        gate, up = self.gate(x), self.up(x)
        match (gate, up):
            case (up, gate):
                pass
        return F.silu(gate) * up


class EarlyReturn(Base):
    def forward(self, x, stop=False):
        gate = self.gate(x)
        if stop:
            return gate
        up = self.up(x)
        return F.silu(gate) * up


class ReturnInMiddle(Base):
    def forward(self, x):
        y = F.silu(self.gate(x)) * self.up(x)
        return y
        y = self.up(y)
        return y


class Conditional(Base):
    def forward(self, x, flag=True):
        gate = self.gate(x) if flag else x
        up = self.up(x) if not flag else x
        return F.silu(gate) * up if flag else F.silu(up) * gate


class OneBranch(Base):
    def forward(self, x, flag=True):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        if flag:
            v = v * 2
        h = h * torch.rsqrt(v + self.eps)
        return self.weight * h.to(x.dtype)


class BothBranches(Base):
    def forward(self, x, flag=True):
        if flag:
            gate = self.gate(x)
            up = self.up(x)
        else:
            gate = self.up(x)
            up = self.gate(x)
        return F.silu(gate) * up


class MaybeUnbound(Base):
    def forward(self, x, flag=True):
        if flag:
            gate = self.gate(x)
        up = self.up(x)
        return F.silu(gate) * up


class Boolean(Base):
    def forward(self, x, flag=True):
        return (flag and F.silu(self.gate(x)) * self.up(x)), (flag or self.gate(x))


class Comprehension(Base):
    def forward(self, x):
        return [F.silu(self.gate(t)) * self.up(t) for t in x], [self.gate(x) for x in (x, x * 2)], self.up(x)


class Assertion(Base):
    def forward(self, x):
        gate = self.gate(x)
        assert (up := self.up(x)) is not None
        return F.silu(gate) * up


class Nested(Base):
    def forward(self, x):
        def inner(y):
            return F.silu(self.gate(y)) * self.up(y)

        return inner(x), inner(x * 2)


KINDS = [
    Carried, CarriedFromBefore, WhileElse, Break, Continue, TryFinally, TryExcept, NoGrad, NoGradAct, AutocastOff,
    AutocastOn, Suppress, Match, MatchBinds, EarlyReturn, ReturnInMiddle, Conditional, OneBranch, BothBranches,
    MaybeUnbound, Boolean, Comprehension, Assertion, Nested,
]
FLAGS = (EarlyReturn, Conditional, OneBranch, BothBranches, MaybeUnbound, Boolean)


def cases(dtype):
    for kind in KINDS:
        block = kind().to(dtype)
        for rows in (3, 4, 7):
            yield block(torch.randn(rows, 8, dtype=dtype))
        yield block.log
        if kind in FLAGS:
            for flag in (True, False):
                yield lambda: block(torch.randn(3, 8, dtype=dtype), flag)
    part = TryPart().to(dtype)
    yield part(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
    yield part(torch.randn(3, 8, dtype=dtype), torch.randn(3, 7, dtype=dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield AutocastOff()(torch.randn(3, 8))
