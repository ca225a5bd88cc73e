# One sign, one half, one operand or one axis is different. Each is a formula of its own.
# expect: not-fused rope
import torch
import torch.nn.functional as F
from torch import nn

class Signs(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((x2, -x1), dim=-1) * sin


class NoSign(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((x2, x1), dim=-1) * sin


class Order(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((x1, -x2), dim=-1) * sin


class Minus(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos - torch.cat((-x2, x1), dim=-1) * sin


class Doubled(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=-1) * 2 * sin


class Axis(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-2)
        return x * cos + torch.cat((-x2, x1), dim=-2) * sin


class CatAxis(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=1).view_as(x) * sin


class Third(nn.Module):
    def forward(self, x, cos, sin):
        x1 = x[..., : x.shape[-1] // 4]
        x2 = x[..., x.shape[-1] // 4 :]
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin


class Other(nn.Module):
    def forward(self, x, cos, sin):
        y = x.flip(0)
        x1, x2 = y.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin


class Three(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1, x1), dim=-1)[..., : x.shape[-1]] * sin


class Four(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2, *_ = x.repeat(1, 1, 1, 2).chunk(4, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin


KINDS = [Signs, NoSign, Order, Minus, Doubled, Axis, CatAxis, Third, Other, Three, Four]


def cases(dtype):
    for kind in KINDS:
        yield kind()(*(torch.randn(2, 8, 8, 8, dtype=dtype) for _ in range(3)))
