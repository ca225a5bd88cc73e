# A method that the match sees through is overridden in a subclass, of this file or of another one.
# expect: either rms_norm
# expect: either act_mul
# expect: either linears
# expect: fused l2_norm Norm._norm "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


class Child(Norm):
    def _norm(self, x):
        return x * 3


class GrandChild(Child):
    pass


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def activate(self, x):
        return F.silu(x)

    def project(self, x):
        return self.up(x)

    def forward(self, x):
        return self.activate(self.gate(x)) * self.project(x)


class OtherMlp(Mlp):
    def activate(self, x):
        return F.relu(x) + 1

    def project(self, x):
        return x.neg_()


class OtherInit(Mlp):
    def __init__(self):
        nn.Module.__init__(self)
        self.gate = nn.Tanh()
        self.up = nn.ReLU(inplace=True)


class Layer(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = Norm() if norm is None else norm

    def forward(self, x, r):
        r = r + x
        return self.norm(r), r


class Loud(Norm):
    def __call__(self, x):
        return super().__call__(x) - 1


def cases(dtype):
    with torch.no_grad():
        for kind in (Norm, Child, GrandChild, Loud, Mlp, OtherMlp, OtherInit):
            x = torch.randn(3, 8, dtype=dtype)
            yield kind().to(dtype)(x), x
        for norm in (None, Norm(), Child(), Loud(), nn.LayerNorm(8), nn.Identity(), nn.ReLU(inplace=True)):
            layer = Layer(norm).to(dtype)
            yield layer(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
        elsewhere = type("Elsewhere", (Norm,), {"_norm": lambda self, x: x + 5})
        yield elsewhere().to(dtype)(torch.randn(3, 8, dtype=dtype))
        yield Layer(elsewhere()).to(dtype)(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
        norm = Norm().to(dtype)
        norm._norm = lambda x: x * 9
        yield norm(torch.randn(3, 8, dtype=dtype))
        Norm._norm = lambda self, x: x * 11
        yield Norm().to(dtype)(torch.randn(3, 8, dtype=dtype))
