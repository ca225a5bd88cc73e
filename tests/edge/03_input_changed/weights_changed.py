# It is a module that changes between the calls: its weight, its bias, the attribute itself, or
# a list that holds it.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.c = nn.Linear(8, 8)


class Weight(Pair):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        a = self.a(x)
        with torch.no_grad():
            self.b.weight.mul_(2)
        return a, self.b(x)


class Data(Pair):
    def forward(self, x):
        a = self.a(x)
        self.b.weight.data = self.b.weight.data + 1
        return a, self.b(x)


class Bias(Pair):
    def forward(self, x):
        a = self.a(x)
        self.b.bias = None
        return a, self.b(x)


class Attribute(Pair):
    def forward(self, x):
        a = self.a(x)
        self.b = self.c
        return a, self.b(x)


class Method(Pair):
    def forward(self, x):
        a = self.a(x)
        self.swap()
        return a, self.b(x)

    def swap(self):
        self.a, self.b = self.b, self.a


class Modules(Pair):
    def forward(self, x):
        a = self.a(x)
        self._modules["b"] = self.c
        return a, self.b(x)


class Alias(Pair):
    def forward(self, x):
        a = self.a(x)
        weight = self.b.weight.detach()
        weight.zero_()
        return a, self.b(x)


class Global(Pair):
    def forward(self, x):
        a = self.a(x)
        halve(self)
        return a, self.b(x)


class Dtype(Pair):
    def forward(self, x):
        a = self.a(x)
        self.b.to(torch.float64)
        return a, self.b(x.to(torch.float64))


def halve(block):
    for p in block.parameters():
        p.data.mul_(0.5)


def cases(dtype):
    for way in (Weight, Data, Bias, Attribute, Method, Modules, Alias, Global, Dtype):
        block, x = way().to(dtype), torch.randn(2, 8, dtype=dtype)
        yield block(x)
        yield block(x)
        yield [p.detach() for p in block.parameters()]
