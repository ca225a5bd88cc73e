# torch, F and nn are not what they are called: parameters, locals, classes of the file, other
# modules.
# expect: either rms_norm
# expect: either act_mul
# expect: either linears
import math as F
import torch
from torch import nn


class functional:
    @staticmethod
    def silu(x):
        return x * 7


class Fake:
    float32 = torch.float64

    @staticmethod
    def rsqrt(x):
        return x * 2

    @staticmethod
    def sigmoid(x):
        return x - 1


class NotFunctional(nn.Module):
    def forward(self, gate, up):
        return functional.silu(gate) * up, F.sqrt(4) * up


class ParameterTorch(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6

    def forward(self, x, torch=Fake):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        return self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)


class LocalTorch(nn.Module):
    def forward(self, gate, up):
        torch = Fake()
        return torch.sigmoid(gate) * up


class LocalNn(nn.Module):
    def __init__(self):
        super().__init__()

        class nn:
            class Linear(torch.nn.Module):
                def __init__(self, a, b):
                    super().__init__()
                    self.calls = 0

                def forward(self, x):
                    self.calls += 1
                    return x.mul_(2) + self.calls

        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x, _):
        return self.gate(x), self.up(x)


class MethodRsqrt(nn.Module):
    def forward(self, gate, up):
        from torch.nn import functional as F

        return F.silu(gate) * up, Fake.sigmoid(gate) * up


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    with torch.no_grad():
        for kind in (NotFunctional, LocalTorch, LocalNn, MethodRsqrt):
            yield kind().to(dtype)(gate, up)
        yield ParameterTorch().to(dtype)(gate)
        yield ParameterTorch().to(dtype)(gate, torch)
