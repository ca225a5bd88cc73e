# A value chosen by a condition, read where that condition holds again. It must be the same
# condition, and nothing may have changed what it says: a list, a tensor, an attribute, a loop.
# expect: fused linears Same.forward
# expect: not-fused linears OtherWay.forward
# expect: not-fused linears List.forward
# expect: not-fused linears Filled.forward
# expect: not-fused linears Attribute.forward
# expect: not-fused linears Loop.forward
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.flag = nn.Linear(8, 8), nn.Linear(8, 8), True


class Same(Base):
    def forward(self, x, y, other=None):
        z = x if other is None else y
        if other is None:
            return self.a(z), self.b(x)
        return self.a(z)


class OtherWay(Base):
    def forward(self, x, y, other=None):
        z = x if other is None else y
        if other is not None:
            return self.a(z), self.b(x)
        return self.a(z)


class List(Base):
    def forward(self, x, y, todo):
        z = x if todo else y
        todo.append(1)
        if todo:
            return self.a(z), self.b(x)
        return self.a(z)


class Filled(Base):
    def forward(self, x, y, flag):
        z = x if flag else y
        flag.fill_(1)
        if flag:
            return self.a(z), self.b(x)
        return self.a(z)


class Attribute(Base):
    def forward(self, x, y, flag):
        self.flag = flag
        z = x if self.flag else y
        self.flag = not flag
        if self.flag:
            return self.a(z), self.b(x)
        return self.a(z)


class Loop(Base):
    def forward(self, x, y, flags):
        flag = flags[0]
        z = x if flag else y
        out = []
        for flag in flags:
            if flag:
                out.append((self.a(z), self.b(x)))
        return out


def cases(dtype):
    x, y = torch.randn(2, 8, dtype=dtype), torch.randn(2, 8, dtype=dtype)
    for kind, others in (
        (Same, (lambda: None, lambda: 1)),
        (OtherWay, (lambda: None, lambda: 1)),
        (List, (lambda: [], lambda: [1])),
        (Filled, (lambda: torch.zeros(1), lambda: torch.ones(1))),
        (Attribute, (lambda: True, lambda: False)),
        (Loop, (lambda: [False, True], lambda: [True, False])),
    ):
        block = kind().to(dtype)
        for other in others:
            yield block(x, y, other())
