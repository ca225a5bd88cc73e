# Norms in x's own dtype, and those whose cast, groups or weight vary: what they have in common. A
# method that a fused call names gets no call of its own; the lines with axis= are torch's too.
# expect: fused l2_norm Divided.forward "form=.mean_sqrt"
# expect: fused l2_norm Length._scaled "form=.mean_rsqrt.*via=self\._length"
# expect: fused l2_norm Grouped._norm "form=.mean_rsqrt"
# expect: fused l2_norm Optional._norm "form=.mean_rsqrt"
# expect: fused l2_norm ScaledFirst.forward "form=.mean_rsqrt.*via=self\._unit"
# expect: fused rms_norm Product.forward "order=.product_cast_weight"
# expect: not-fused l2_norm Outside.forward
# expect: not-fused l2_norm Between.forward
# expect: not-fused l2_norm Axis.forward
# expect: not-fused l2_norm Both.forward
import torch
from torch import nn


class Weighted(nn.Module):
    def __init__(self, group_size=None, wide=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps, self.group_size, self.wide = 1e-3, group_size, wide


class Divided(Weighted):
    def forward(self, x):
        x = x / torch.sqrt(torch.mean(torch.square(x), axis=-1, keepdims=True) + self.eps)
        return x * self.weight


class Length(Weighted):
    def _scaled(self, x):
        return self._length(x) / 3

    def _length(self, x, epsilon=1e-3):
        variance = torch.mean(x**2, -1, keepdim=True)
        return x * torch.rsqrt(variance + epsilon)

    def forward(self, x):
        return self._scaled(x)


class Grouped(Weighted):
    def _norm(self, x):
        if self.group_size is not None:
            x = x.reshape(*x.shape[:-1], -1, self.group_size)
        out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return out.flatten(-2) if self.group_size is not None else out

    def forward(self, x):
        return (self._norm(x.float()) * (1.0 + self.weight.float())).type_as(x)


class Optional(Weighted):
    def _norm(self, x):
        dtype = x.dtype
        if self.wide:
            x = x.float()
        x = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return x.to(dtype)

    def forward(self, x):
        return self.weight * self._norm(x)


class ScaledFirst(Weighted):
    def _unit(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = x.float() * (1.0 + self.weight).float()
        output = self._unit(output.type_as(x).float())
        return output.type_as(x)


class Product(Weighted):
    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(dim=-1, keepdim=True)
        return (x * torch.rsqrt(variance + self.eps)).to(x.dtype) * self.weight


class Outside(Weighted):
    def forward(self, x):
        return x / (torch.sqrt(x.pow(2).mean(-1, keepdim=True)) + self.eps)


class Between(Weighted):
    def forward(self, x):
        v = x.pow(2).mean(-1, keepdim=True)
        x.mul_(2)
        return x * torch.rsqrt(v + self.eps)


class Axis(Weighted):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(axis=1, keepdim=True) + self.eps)


class Both(Weighted):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, axis=-1, keepdim=True) + self.eps)


def cases(dtype):
    x = torch.randn(2, 8, 8, dtype=dtype)
    for kind in (Divided, Length, ScaledFirst, Product, Outside, Axis, Grouped, Optional):
        yield kind().to(dtype)(x)
    yield Between().to(dtype)(x.clone())
    yield lambda: Both().to(dtype)(x)
    yield Grouped(4).to(dtype)(x)
    yield Optional(wide=False).to(dtype)(x)
