# A method is the whole of an op. Its call stays where the method itself is fused, and is guarded where
# only the call says enough: a subclass of another file, or an instance, may have its own.
# expect: fused add_rms_norm Sum.part
# expect: fused act_mul Gate.part
# expect: fused rms_norm Norm.forward "via=self._norm"
# expect: fused rms_norm Inner.forward
# expect: text "a, b = self.part\(x, x \* 2\)"
# expect: text "return self.part\(self.proj\(x\)\) \* 3"
import torch
import torch.nn.functional as F
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * h.to(x.dtype)


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Inner()

    def part(self, x, y):
        y = y + x
        h = self.norm(y)
        return h, y

    def forward(self, x):
        a, b = self.part(x, x * 2)
        return a * 3 - b


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def part(self, x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up

    def forward(self, x):
        return self.part(self.proj(x)) * 3


class Norm(nn.Module):
    def _norm(self, x):
        mean = x.pow(2).mean(-1, keepdim=True) + 1e-6
        return x * torch.pow(mean, -0.5)

    def forward(self, x):
        return self._norm(x.float()) * 2


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for kind in (Sum, Gate, Norm):
        name = "_norm" if kind is Norm else "part"
        own = (lambda self, x, y: (x, y)) if kind is Sum else (lambda self, x: x - 1)
        yield kind().to(dtype)(x)
        yield type("Elsewhere", (kind,), {name: own})().to(dtype)(x)
        module = kind().to(dtype)
        setattr(module, name, own.__get__(module))
        yield module(x)
