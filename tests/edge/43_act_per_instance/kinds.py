# One class with many activations: chosen per instance, with parameters, with state, in place,
# dropout in between.
# expect: either act_mul Chosen.forward
# expect: either linears Chosen.forward
# expect: either act_mul Prelu.forward
# expect: either linears Prelu.forward
# expect: not-fused act_mul Dropped.forward
# expect: either linears Dropped.forward
# expect: either act_mul InPlace.forward
# expect: either linears InPlace.forward
# expect: either act_mul InPlaceKept.forward
# expect: either linears InPlaceKept.forward
# expect: either act_mul Counting.forward
# expect: either linears Counting.forward
# expect: either act_mul Lambda.forward
# expect: either linears Lambda.forward
# expect: either act_mul ByName.forward
# expect: either linears ByName.forward
import torch
import torch.nn.functional as F
from torch import nn

ACT2FN = {"silu": nn.SiLU(), "gelu": nn.GELU(), "relu": nn.ReLU(), "tanh": nn.Tanh(), "sigmoid": nn.Sigmoid()}


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)


class Chosen(Base):
    def __init__(self, name="silu"):
        super().__init__()
        self.act_fn = ACT2FN[name]

    def forward(self, x):
        return self.act_fn(self.gate(x)) * self.up(x)


class Prelu(Base):
    def __init__(self):
        super().__init__()
        self.act_fn = nn.PReLU(16)

    def forward(self, x):
        return self.act_fn(self.gate(x).transpose(0, 1)).transpose(0, 1) * self.up(x)


class Dropped(Base):
    def __init__(self):
        super().__init__()
        self.act_fn = nn.SiLU()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        gate = self.dropout(self.act_fn(self.gate(x)))
        up = self.dropout(self.up(x))
        return gate * up


class InPlace(Base):
    def __init__(self):
        super().__init__()
        self.act_fn = nn.SiLU(inplace=True)

    def forward(self, x):
        return self.act_fn(self.gate(x)) * self.up(x)


class InPlaceKept(Base):
    def __init__(self):
        super().__init__()
        self.act_fn = nn.ReLU(inplace=True)

    def forward(self, x):
        gate = self.gate(x)
        y = self.act_fn(gate) * self.up(x)
        z = self.act_fn(x)
        return y, gate, z, self.up(x), x


class Count(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Counting(Base):
    def __init__(self):
        super().__init__()
        self.act_fn = Count()

    def forward(self, x):
        return self.act_fn(self.gate(x)) * self.up(x)


class Lambda(Base):
    def __init__(self):
        super().__init__()
        self.act_fn = lambda t: t.relu_().add_(1)

    def forward(self, x):
        gate = self.gate(x)
        return self.act_fn(gate) * self.up(x), gate


class ByName(Base):
    def __init__(self, name="silu"):
        super().__init__()
        self.act_fn = getattr(F, name)

    def forward(self, x):
        return self.act_fn(self.gate(x)) * self.up(x)


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    with torch.no_grad():
        for name in ACT2FN:
            yield Chosen(name).to(dtype)(x)
        acts = [nn.Softmax(dim=-1), nn.Identity(), nn.LeakyReLU(0.3), nn.PReLU(), nn.Hardswish(), F.silu]
        for act in [*acts, torch.sin, Count()]:
            chosen = Chosen().to(dtype)
            del chosen.act_fn
            chosen.act_fn = act.to(dtype) if isinstance(act, nn.Module) else act
            yield chosen(x)
        for act in (nn.GLU(), nn.Softmin(dim=5), None, torch.argmax):
            del chosen.act_fn
            chosen.act_fn = act
            yield lambda: chosen(x)
        for kind in (Prelu, Dropped, InPlace, InPlaceKept, Counting, Lambda, ByName):
            block, given = kind().to(dtype), torch.randn(16, 8, dtype=dtype)
            yield block(given)
            yield block(given)
        yield [ByName(name).to(dtype)(x) for name in ("relu", "mish", "softplus")]
