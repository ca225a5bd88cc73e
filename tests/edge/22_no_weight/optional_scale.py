# A flag of the instance says whether there is a weight at all.
# expect: either rms_norm Norm.forward
# expect: fused l2_norm Norm.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, with_scale):
        super().__init__()
        self.eps = 1e-6
        self.with_scale = with_scale
        if with_scale:
            self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        out = x.float()
        out = out * torch.rsqrt(out.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.with_scale:
            out = out * self.weight.float()
        return out.type_as(x)


def cases(dtype):
    x = torch.randn(2, 3, 16, dtype=dtype)
    for with_scale in (True, False):
        yield Norm(16, with_scale).to(dtype)(x)
    norm = Norm(16, False)
    norm.with_scale = True
    yield lambda: norm(x)
