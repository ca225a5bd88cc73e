# The condition is another one: one dtype less, negated, an else branch, on the input instead of
# the weight.
# expect: not-fused rms_norm One.forward
# expect: not-fused rms_norm Negated.forward
# expect: not-fused rms_norm Else.forward
# expect: not-fused rms_norm Input.forward
# expect: not-fused rms_norm Flag.forward
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-6
        self.flag = False


class One(Base):
    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        if self.weight.dtype in [torch.float16]:
            x = x.to(self.weight.dtype)
        return self.weight * x


class Negated(Base):
    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        if self.weight.dtype not in [torch.float16, torch.bfloat16]:
            x = x.to(self.weight.dtype)
        return self.weight * x


class Else(Base):
    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            x = x.to(self.weight.dtype)
        else:
            x = x + 1
        return self.weight * x


class Input(Base):
    def forward(self, x):
        dtype = x.dtype
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        if dtype in [torch.float16, torch.bfloat16]:
            x = x.to(dtype)
        return self.weight * x


class Flag(Base):
    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        if self.flag:
            x = x.to(torch.bfloat16)
        return self.weight * x


def cases(dtype):
    for kind in (One, Negated, Else, Input, Flag):
        norm = kind()
        for weight in (torch.float16, torch.bfloat16, torch.float32):
            x = torch.randn(7, 16, dtype=dtype)
            norm.flag = False
            yield norm.to(weight)(x)
            norm.flag = True
            yield norm(x)
