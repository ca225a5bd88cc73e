# What is taken away leaves no more blank lines than stood on one side of it, and none where a body starts.
# expect: fused rms_norm First.forward
# expect: fused rms_norm Second.forward
# expect: fused rms_norm Commented.forward
# expect: fused rms_norm Inserted.norm
# expect: fused linears Inserted.forward
# expect: text "class First\(Norm\):\n    def forward\(self, x\):\n        return tfr"
# expect: text "x = x \+ 1\n\n        return tfr\.rms_norm\([^\n]*\)\n\n\nclass Commented"
# expect: text "# stays: of the next\n\n        # stays too\n\n        return tfr"
# expect: text "s = x \* 2\n\n        q, k = tfr\.linears[^\n]*\n\n        return q"
# expect: text "x = x - 1\n\n\n        return tfr\.rms_norm"
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps
        self.q, self.k = nn.Linear(width, 4), nn.Linear(width, 6)


class First(Norm):
    def forward(self, x):
        dtype = x.dtype

        h = x.to(torch.float32)


        v = h.pow(2).mean(-1, keepdim=True)
        h = h * torch.rsqrt(v + self.eps)

        return self.weight * h.to(dtype)


class Second(Norm):
    def forward(self, x):
        x = x + 1

        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)

        h = h * torch.rsqrt(v + self.eps)

        return self.weight * h.to(x.dtype)


class Commented(Norm):
    def forward(self, x):
        # stays: of the next
        dtype = x.dtype

        h = x.to(torch.float32)

        v = h.pow(2).mean(-1, keepdim=True)  # stays too

        h = h * torch.rsqrt(v + self.eps)

        return self.weight * h.to(dtype)


class Inserted(Norm):
    def forward(self, x):
        s = x * 2

        q = self.q(s)
        k = self.k(s)

        return q, k, self.norm(s)

    def norm(self, x):
        x = x - 1

        h = x.to(torch.float32)


        v = h.pow(2).mean(-1, keepdim=True)

        h = h * torch.rsqrt(v + self.eps)
        return self.weight * h.to(x.dtype)


def cases(dtype):
    for kind in (First, Second, Commented, Inserted):
        yield kind(8).to(dtype)(torch.randn(3, 8, dtype=dtype))
