# Between the projections a state of the whole program changes: gradients, autocast, the random
# generator, the default type.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)


class GradientsOff(Pair):
    def forward(self, x):
        a = self.a(x)
        torch.set_grad_enabled(False)
        b = self.b(x)
        torch.set_grad_enabled(True)
        return a, b


class Entered(Pair):
    def forward(self, x):
        a = self.a(x)
        context = torch.no_grad()
        context.__enter__()
        b = self.b(x)
        context.__exit__(None, None, None)
        return a, b


class Frozen(Pair):
    def forward(self, x):
        a = self.a(x)
        self.b.requires_grad_(False)
        b = self.b(x)
        self.b.requires_grad_(True)
        return a, b


class Needs(Pair):
    def forward(self, x):
        for p in self.parameters():
            p.requires_grad = False
        a = self.a(x)
        x.requires_grad_()
        b = self.b(x)
        return a, b


class Hooked(Pair):
    def forward(self, x):
        a = self.a(x)
        handle = self.b.register_forward_hook(lambda m, args, out: out * 2)
        b = self.b(x)
        handle.remove()
        return a, b


class Autocast(Pair):
    def forward(self, x):
        a = self.a(x)
        torch.set_autocast_enabled("cpu", True)
        b = self.b(x)
        torch.set_autocast_enabled("cpu", False)
        return a, b


def cases(dtype):
    for kind in (GradientsOff, Entered, Frozen, Needs, Hooked, Autocast):
        yield kind().to(dtype)(torch.randn(3, 8, dtype=dtype))
