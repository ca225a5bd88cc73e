# L2 norms as linear attention and embeddings write them, and what only looks like one: a helper that
# takes the axis, one that was replaced, another axis or order, the length of something else.
# expect: fused l2_norm Heads.forward x2 "eps=1e-5, dim=-1, via=\(l2norm, .eps., .dim.\)"
# expect: fused l2_norm Default.forward "dim=-1, via=l2norm"
# expect: fused l2_norm Pooled.forward "form=.pow., inner=length_of"
# expect: fused l2_norm Added.forward "form=.norm_add."
# expect: fused l2_norm Functional.forward "form=.normalize., eps=1e-12"
# expect: fused l2_norm Axis.forward "dim=1, via="
# expect: refused l2_norm OtherAxis.forward "another axis"
# expect: refused l2_norm SomeOrder.forward "order of the norm"
# expect: refused l2_norm Written.forward "written"
# expect: not-fused l2_norm LengthOfAnother.*
# expect: not-fused l2_norm Numbers.*
import torch
import torch.nn.functional as F
from torch import nn


def l2norm(x: torch.Tensor, dim: int = -1, eps: float = 1e-6):
    inv_norm = torch.rsqrt((x * x).sum(dim=dim, keepdim=True) + eps)
    return x * inv_norm


def length_of(tensor):
    square = torch.pow(tensor, 2)
    return torch.pow(torch.sum(square, dim=-1, keepdim=True), 0.5)


class Heads(nn.Module):
    def forward(self, q, k):
        q, k = [x.transpose(1, 2).to(torch.float32) for x in (q, k)]
        q = l2norm(q, dim=-1, eps=1e-5)
        k = l2norm(k, dim=-1, eps=1e-5)
        return q + k


class Default(nn.Module):
    def forward(self, x):
        return l2norm(x.float())


class Axis(nn.Module):
    def forward(self, x):
        return l2norm(x, dim=1)


class Box:
    def __init__(self, pooled):
        self.pooled = pooled


class Pooled(nn.Module):
    def forward(self, box):
        x = box.pooled
        return x / length_of(x)


class Added(nn.Module):
    def forward(self, x):
        return x / (torch.linalg.norm(x, dim=-1, keepdim=True) + 1e-2)


class Functional(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=-1)


class OtherAxis(nn.Module):
    def forward(self, x):
        return x / x.norm(p=2, dim=1, keepdim=True)


class SomeOrder(nn.Module):
    def __init__(self):
        super().__init__()
        self.order = 3

    def forward(self, x):
        return x / torch.norm(x, p=self.order, dim=-1, keepdim=True)


class LengthOfAnother(nn.Module):
    def forward(self, x, y):
        return x / y.norm(dim=-1, keepdim=True)


class Written(nn.Module):
    def forward(self, x):
        n = x.norm(dim=-1, keepdim=True)
        x.mul_(2.0)
        return x / n


class Numbers(nn.Module):
    """x * x of a number: a string would be an error, and a count is no tensor."""

    def forward(self, n):
        return sum([n * n, n**2]) / n


def cases(dtype):
    x, y = torch.randn(2, 3, 24).to(dtype), torch.randn(2, 3, 24).to(dtype)
    yield Heads()(torch.randn(2, 3, 4, 8).to(dtype), torch.randn(2, 3, 4, 8).to(dtype))
    for module in (Default, Axis, Added, Functional, OtherAxis, SomeOrder):
        yield module()(x)
    yield Functional()(torch.zeros(2, 8, dtype=dtype))
    yield Pooled()(Box(x))
    yield LengthOfAnother()(x, y)
    yield Written()(x.clone())
    yield Numbers()(3), Numbers()(0.1)
    known = l2norm
    try:
        globals()["l2norm"] = lambda x, dim=-1, eps=1e-6: x * 3 + eps
        yield Default()(x), Axis()(x)
    finally:
        globals()["l2norm"] = known
