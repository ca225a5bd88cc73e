# The scale is an expression, a literal, an attribute changed after construction, or absent:
# what the source says is kept.
# expect: fused linears Attribute.forward
# expect: fused linears Expression.forward
# expect: either linears Late.forward
# expect: fused linears Absent.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaling = 8**-0.5
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)

    def forward(self, x):
        q, k = self.q(x) * self.scaling, self.k(x)
        return q @ k.transpose(-1, -2)


class Expression(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q(x)
        k = self.k(x)
        return F.scaled_dot_product_attention(q, k, k, scale=q.shape[-1] ** -0.5 * 0.7)


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q(x)
        self.scaling = float(q.shape[1])
        k = self.k(x) * self.scaling
        return q @ k.transpose(-1, -2) / 3.0


class Absent(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), x)


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for kind in (Attribute, Expression, Late, Absent):
        block = kind().to(dtype)
        yield block(x)
        block.scaling = 0.25
        yield block(x)
