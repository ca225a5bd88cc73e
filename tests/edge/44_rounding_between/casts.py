# Whether the activation is rounded before the product: as the source has it, in each spelling.
# expect: fused act_mul Rounded.forward
# expect: either act_mul Float.forward
# expect: fused act_mul Product.forward "cast=.float32"
# expect: either act_mul ProductAsUp.forward
# expect: either act_mul OneCast.forward
# expect: either act_mul Up.forward
# expect: either act_mul OneHalf.forward
import torch
import torch.nn.functional as F
from torch import nn

class Rounded(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up


class Float(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate.float()).to(up.dtype) * up


class Product(nn.Module):
    def forward(self, gate, up):
        return (F.silu(gate.float()) * up.float()).to(gate.dtype)


class ProductAsUp(nn.Module):
    def forward(self, gate, up):
        return (F.silu(gate.float()) * up.float()).to(up.dtype)


class OneCast(nn.Module):
    def forward(self, gate, up):
        return (F.silu(gate.float()) * up).to(gate.dtype)


class Up(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up.float()


class OneHalf(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate, inplace=False).to(torch.float16) * up


def cases(dtype):
    for kind in (Rounded, Float, Product, ProductAsUp, OneCast, Up, OneHalf):
        yield kind()(torch.randn(33, 65, dtype=dtype), torch.randn(33, 65, dtype=dtype))
        yield kind()(torch.randn(33, 65, dtype=dtype), torch.randn(33, 65).half())
        yield kind()(torch.randn(33, 1, dtype=dtype), torch.randn(65, dtype=dtype))
        yield kind()(torch.randn(3, dtype=torch.float64), torch.randn(3, dtype=dtype))
