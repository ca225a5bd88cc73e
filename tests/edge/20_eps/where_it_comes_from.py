# eps as a literal, parameter, class attribute, property, global, buffer, expression.
# expect: fused rms_norm Literal.forward
# expect: either rms_norm Argument.forward
# expect: either rms_norm ClassAttribute.forward
# expect: either rms_norm Property.forward
# expect: either rms_norm Global.forward
# expect: either rms_norm Buffer.forward
# expect: either rms_norm Computed.forward
# expect: either rms_norm Config.forward
# expect: not-fused rms_norm Twice.forward
# expect: not-fused rms_norm Outside.forward
# expect: not-fused rms_norm Inside.forward
# expect: not-fused rms_norm Clamped.forward
# expect: not-fused rms_norm Absent.forward
# expect: not-fused rms_norm Negative.forward
import torch
import torch.nn.functional as F
from torch import nn
EPS = 1e-3


class Base(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = 1e-3
        self.reads = 0


class Literal(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-3)).to(x.dtype)


class Argument(Base):
    def forward(self, x, eps=1e-2):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


class ClassAttribute(Base):
    epsilon = 1e-4

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype)


class Property(Base):
    @property
    def epsilon(self):
        self.reads += 1
        return 1e-3 * self.reads

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype)


class Global(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype)


class Buffer(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("epsilon", torch.full((1,), 1e-3))

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype)


class Computed(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps * 2)).to(x.dtype)


class Config(Base):
    def __init__(self):
        super().__init__()
        self.config = {"eps": 1e-3}

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.config["eps"])).to(x.dtype)


class Twice(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        return self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)


class Outside(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * (torch.rsqrt(h.pow(2).mean(-1, keepdim=True)) + self.eps)).to(x.dtype)


class Inside(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt((h.pow(2) + self.eps).mean(-1, keepdim=True))).to(x.dtype)


class Clamped(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True).clamp(min=self.eps))).to(x.dtype)


class Absent(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True))).to(x.dtype)


class Negative(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) - self.eps)).to(x.dtype)


KINDS = [
    Literal, Argument, ClassAttribute, Property, Global, Buffer, Computed, Config, Twice, Outside, Inside, Clamped,
    Absent, Negative,
]


def cases(dtype):
    global EPS
    for kind in KINDS:
        EPS = 1e-3
        norm, x = kind().to(dtype), torch.randn(7, 16, dtype=dtype) * 0.1
        yield norm(x)
        yield norm(x)
        EPS = norm.eps = 0.25
        yield norm(x)
        yield norm.reads
        if kind is Argument:
            yield norm(x, eps=0.5)
            yield norm(x, 0)
            yield norm(x, torch.tensor(0.1))
