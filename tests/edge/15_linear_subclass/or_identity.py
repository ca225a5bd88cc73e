# Heads that are nn.Identity without labels: the op calls what is no nn.Linear. Other modules in that
# place, and an Identity of the file's own, are no such thing.
# expect: fused linears Heads.forward "self.head, self.dist_head"
# expect: not-fused linears Tanh.forward
# expect: not-fused linears Own.forward
import torch
from torch import nn


class Identity(nn.Module):
    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return x * self.calls


class Heads(nn.Module):
    def __init__(self, labels, more):
        super().__init__()
        self.head = nn.Linear(8, labels) if labels > 0 else nn.Identity()
        self.dist_head = (nn.Identity()) if more == 0 else nn.Linear(8, more)

    def forward(self, x):
        a = self.head(x)
        b = self.dist_head(x)
        return a, b


class Tanh(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.head = nn.Linear(8, labels) if labels > 0 else nn.Tanh()
        self.dist_head = nn.Linear(8, labels) if labels > 0 else nn.Tanh()

    def forward(self, x):
        return self.head(x), self.dist_head(x)


class Own(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.head = nn.Linear(8, labels) if labels > 0 else Identity()
        self.dist_head = nn.Linear(8, labels) if labels > 0 else Identity()

    def forward(self, x):
        return self.head(x), self.dist_head(x), self.head(x)


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for labels, more in ((4, 6), (4, 0), (0, 6), (0, 0)):
        yield Heads(labels, more).to(dtype)(x)
    hooked = Heads(0, 0)
    hooked.head.register_forward_hook(lambda module, args, out: out + 1)
    yield hooked(x)
    for kind in (Tanh, Own):
        for labels in (3, 0):
            yield kind(labels).to(dtype)(x)
