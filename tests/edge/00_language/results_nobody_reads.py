# A result that nothing reads: the code that makes it may raise, keeps a branch or a handler alive,
# or is all that a helper does. A call in its place would be made for nothing.
# expect: refused rms_norm Alone.forward "read"
# expect: refused rms_norm Handled.forward "read"
# expect: refused rms_norm Branch.forward "read"
# expect: refused rms_norm Helper.part "read"
# expect: refused act_mul Interrupted.forward "read"
# expect: refused rope Two.forward "read"
# expect: fused add_rms_norm Called.part
# expect: refused rope Chain.forward "made nowhere before"
# expect: refused rope One.forward "read"
# expect: fused rms_norm Norm.forward
# expect: no-text "^ *pass$"
import torch
import torch.nn.functional as F
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.q = nn.Linear(8, 8)


class Alone(Base):  # has no eps: raises
    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        h = self.weight * h.to(x.dtype)
        return x


class Handled(Base):
    def forward(self, x):
        try:
            x = x.view(3, 5, 7)
        except RuntimeError:
            h = x.float()
            h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
            h = self.weight * h.to(x.dtype)
        return x


class Branch(Base):
    def forward(self, x):
        if self.training:
            h = x.float()
            h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
            h = self.weight * h.to(x.dtype)
        return x


class Helper(Base):
    def part(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        h = self.weight * h.to(x.dtype)

    def forward(self, x):
        a, b = self.part(x)
        return a


class Interrupted(Base):
    def forward(self, x):
        h = F.silu(x)
        y = x.transpose(0, 3)
        h = h * y
        return self.missing(x)


class Norm(Base):
    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * h.to(x.dtype)


class Called(Base):  # once the method is fused, its call looks like the op's own
    def __init__(self):
        super().__init__()
        self.norm = Norm()

    def part(self, x, y):
        y = y + x
        h = self.norm(y)
        return h, y

    def forward(self, x):
        try:
            a, b = self.part(x, x * 2)
        except ValueError:
            x = x + 1
        return x


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class Two(Base):  # the second one exists only behind the branch
    def forward(self, x, cos, sin):
        a = self.q(x).view(2, 3, 2, 4).transpose(1, 2)
        a = (a * cos.unsqueeze(1)) + (rotate_half(a) * sin.unsqueeze(1))
        if (h := x * 2).sum() > 0:
            h = h + x
        b = self.q(h).view(2, 3, 2, 4).transpose(1, 2)
        b = (b * cos.unsqueeze(1)) + (rotate_half(b) * sin.unsqueeze(1))
        return h


class Chain(Base):  # what reads the second one is read by nothing
    def forward(self, x, cos, sin):
        a = self.q(x).view(2, 3, 2, 4).transpose(1, 2)
        a = (a * cos.unsqueeze(1)) + (rotate_half(a) * sin.unsqueeze(1))
        h = a.transpose(1, 2).reshape(2, 3, 8)
        b = self.q(h).view(2, 3, 2, 4).transpose(1, 2)
        b = (b * cos.unsqueeze(1)) + (rotate_half(b) * sin.unsqueeze(1))
        h = b.mean(1)
        return a


class One(Base):  # as would be its projection, were it merged
    def forward(self, x, cos, sin):
        a = self.q(x).view(2, 3, 2, 4).transpose(1, 2)
        b = self.q(x * 2).view(2, 3, 2, 4).transpose(1, 2)
        b = (b * cos.unsqueeze(1)) + (rotate_half(b) * sin.unsqueeze(1))
        a = (a * cos.unsqueeze(1)) + (rotate_half(a) * sin.unsqueeze(1))
        return a


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for kind in (Alone, Handled, Branch, Helper, Interrupted, Called):
        block = kind().to(dtype)
        yield lambda block=block: block(x)
    for kind in (Two, Chain, One):
        yield kind().to(dtype)(x, *torch.randn(2, 2, 3, 4, dtype=dtype))
