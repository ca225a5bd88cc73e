# global and nonlocal names, default arguments evaluated at definition, classes inside
# functions, name mangling.
# expect: either act_mul
# expect: either linears
# expect: either rms_norm
# expect: either add_rms_norm
import torch
import torch.nn.functional as F
from torch import nn

SCALE = 2.0
EPS = 1e-6


class GlobalWritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        global SCALE, LAST
        LAST = self.gate(x)
        SCALE = SCALE + 1
        up = self.up(x)
        y = F.silu(LAST) * up
        return y, SCALE


class GlobalChangedByCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True) + EPS
        change_eps()
        return self.weight * (h * torch.rsqrt(v)).to(x.dtype), EPS


def change_eps():
    global EPS
    EPS = EPS * 1000


class Default(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x, scale=SCALE, kept=[]):
        kept.append(self.gate(x))
        return F.silu(kept[0]) * self.up(x) * scale, len(kept)


class Mangled(nn.Module):
    def __init__(self):
        super().__init__()
        self.__gate = nn.Linear(8, 8)
        self.__up = nn.Linear(8, 8)
        self.__act = nn.SiLU()

    def forward(self, x):
        return self.__act(self.__gate(x)) * self.__up(x)


class MangledChild(Mangled):
    def __init__(self):
        super().__init__()
        self.__gate = nn.Linear(8, 8)


class MangledNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.__weight = nn.Parameter(torch.randn(8))
        self.__eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        return self.__weight * (h * torch.rsqrt(v + self.__eps)).to(x.dtype)


class MangledUser(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = MangledNorm()

    def forward(self, x, r):
        r = r + x
        return self.norm(r), r


def make(width):
    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, width)
            self.up = nn.Linear(8, width)

        def forward(self, x):
            return F.silu(self.gate(x)) * self.up(x) * width

    return Local()


class Outer(nn.Module):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 8)
            self.up = nn.Linear(8, 8)

        def forward(self, x):
            return F.silu(self.gate(x)) * self.up(x)

    def __init__(self):
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x):
        return self.inner(x)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


FirstTwice = Twice


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Tanh()

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


class MethodTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)

    def forward(self, x):
        return F.gelu(self.gate(x)) * self.up(x) + 1


class Static(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    @staticmethod
    def combine(gate, up):
        return F.silu(gate) * up

    @classmethod
    def name(cls, gate, up):
        return F.silu(gate) * up, cls.__name__

    def forward(this, x):
        gate, up = this.gate(x), this.up(x)
        return this.combine(gate, up), this.name(gate, up)


class Conditionally(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    if SCALE > 1:

        def forward(self, x):
            return F.silu(self.gate(x)) * self.up(x)

    else:

        def forward(self, x):
            return x


def module_level(block, x):
    return F.silu(block.gate(x)) * block.up(x)


KINDS = [
    GlobalWritten, GlobalChangedByCall, Default, Mangled, MangledChild, MangledNorm, Outer, FirstTwice, Twice,
    MethodTwice, Static, Conditionally,
]


def cases(dtype):
    with torch.no_grad():
        for kind in KINDS:
            block = kind().to(dtype)
            yield block(torch.randn(3, 8, dtype=dtype))
            yield block(torch.randn(3, 8, dtype=dtype))
        yield MangledUser().to(dtype)(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
        yield make(5).to(dtype)(torch.randn(3, 8, dtype=dtype))
        yield module_level(block, torch.randn(3, 8, dtype=dtype))
        yield [name for name, _ in Mangled().named_parameters()]
