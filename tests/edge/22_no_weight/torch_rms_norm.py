# torch's own rms_norm without a weight, over the last axis.
# expect: fused l2_norm Modulated.forward "form=.rms_norm., eps=self\.eps"
# expect: not-fused l2_norm Weighted.forward
# expect: not-fused l2_norm Columns.forward
# expect: not-fused l2_norm OwnEps.forward
# expect: not-fused l2_norm Axes.forward
import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.randn(8)), 0.25


class Modulated(Norm):
    def forward(self, x, scale):
        return F.rms_norm(x, (x.shape[-1],), eps=self.eps) * (1 + scale)


class Weighted(Norm):
    def forward(self, x, scale):
        return F.rms_norm(x, (x.shape[-1],), self.weight, eps=self.eps)


class Columns(Norm):
    def forward(self, x, scale):
        return F.rms_norm(x, (8,), eps=self.eps)


class OwnEps(Norm):
    def forward(self, x, scale):
        return F.rms_norm(x, (x.shape[-1],))


class Axes(Norm):
    def forward(self, x, scale):
        return F.rms_norm(x, (x.shape[-2], x.shape[-1]), eps=self.eps)


def cases(dtype):
    x, scale = torch.randn(2, 3, 8, dtype=dtype), torch.randn(8, dtype=dtype)
    for kind in (Modulated, Weighted, Columns, OwnEps, Axes):
        yield lambda kind=kind: kind().to(dtype)(x, scale)
    yield lambda: Modulated()(x[..., :5], scale[:5])
    yield lambda: Modulated()(torch.arange(8), scale)
