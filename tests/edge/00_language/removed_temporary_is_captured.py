# A temporary of the match is read elsewhere: by a closure, a lambda, a comprehension, locals(),
# eval, a default, del.
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


class Closure(Base):
    def forward(self, x):
        def peek():
            return variance * 2

        h = x.to(torch.float32)
        variance = h.pow(2).mean(-1, keepdim=True)
        y = self.weight * (h * torch.rsqrt(variance + self.eps)).to(x.dtype)
        return y, peek()


class Lambda(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        variance = h.pow(2).mean(-1, keepdim=True)
        look = lambda: (h, variance)
        h = h * torch.rsqrt(variance + self.eps)
        return self.weight * h.to(x.dtype), look()


class DefaultArgument(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        variance = h.pow(2).mean(-1, keepdim=True)

        def look(v=variance):
            return v

        variance = variance + self.eps
        return self.weight * (h * torch.rsqrt(variance)).to(x.dtype), look()


class Locals(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        variance = h.pow(2).mean(-1, keepdim=True)
        y = self.weight * (h * torch.rsqrt(variance + self.eps)).to(x.dtype)
        return y, sorted(k for k in locals() if not k.startswith("__"))


class LocalsFirst(Base):
    def forward(self, x):
        gate = self.gate(x)
        names = sorted(locals())
        up = self.up(x)
        return F.silu(gate) * up, names


class Vars(Base):
    def forward(self, x):
        gate = self.gate(x)
        up = self.up(x)
        y = F.silu(gate) * up
        return y, vars()["gate"], len(dir())


class Eval(Base):
    def forward(self, x):
        gate = self.gate(x)
        up = self.up(x)
        y = F.silu(gate) * up
        return y, eval("gate + up")


class Exec(Base):
    def forward(self, x):
        gate = self.gate(x)
        exec("gate.mul_(2)")
        up = self.up(x)
        return F.silu(gate) * up


class Formatted(Base):
    def forward(self, x):
        gate = self.gate(x)
        up = self.up(x)
        y = F.silu(gate) * up
        return y, f"{gate.shape[0]} {up.sum().item():.3f} {gate.dtype=}"


class Deleted(Base):
    def forward(self, x):
        gate = self.gate(x)
        up = self.up(x)
        y = F.silu(gate) * up
        del gate, up
        return y


class DeletedBetween(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        shape = x.shape
        variance = h.pow(2).mean(-1, keepdim=True)
        y = self.weight * (h * torch.rsqrt(variance + self.eps)).to(x.dtype)
        del variance
        del h
        return y.view(shape)


class DeletedInput(Base):
    def forward(self, x):
        gate = self.gate(x)
        up = self.up(x)
        del x
        y = F.silu(gate) * up
        try:
            return y, x
        except UnboundLocalError:
            return y, None


class UsedAfter(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        variance = h.pow(2).mean(-1, keepdim=True)
        y = self.weight * (h * torch.rsqrt(variance + self.eps)).to(x.dtype)
        return y, variance, h


class UsedInNested(Base):
    def forward(self, x):
        gate = self.gate(x)
        up = self.up(x)
        y = F.silu(gate) * up
        return y, [gate.sum() for _ in range(2)], {k: up for k in "a"}


class ClassInside(Base):
    def forward(self, x):
        gate = self.gate(x)

        class Holder:
            value = gate

        up = self.up(x)
        return F.silu(gate) * up, Holder.value


class Nonlocal(Base):
    def forward(self, x):
        gate = self.gate(x)

        def change():
            nonlocal gate
            gate = gate * 2

        up = self.up(x)
        change()
        return F.silu(gate) * up


KINDS = [
    Closure, Lambda, DefaultArgument, Locals, LocalsFirst, Vars, Eval, Exec, Formatted, Deleted, DeletedBetween,
    DeletedInput, UsedAfter, UsedInNested, ClassInside, Nonlocal,
]


def cases(dtype):
    with torch.no_grad():
        for kind in KINDS:
            yield kind().to(dtype)(torch.randn(3, 8, dtype=dtype))
