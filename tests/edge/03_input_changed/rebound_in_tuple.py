# The input is rebound by unpacking, by a walrus, by a loop and by `with ... as`.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.c = nn.Linear(8, 8)
        self.d = nn.Linear(8, 8)
        self.e = nn.Linear(8, 8)

    def forward(self, x, y, held):
        a = self.a(x)
        x, y = y, x
        b = self.b(x)
        z = (x := x + 1) * 2
        c = self.c(x)
        for x in (y, z):
            pass
        d = self.d(x)
        with held as x:
            e = self.e(x)
        return a, b, c, d, e


class Held:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self.value

    def __exit__(self, *args):
        return False


def cases(dtype):
    x, y, z = (torch.randn(3, 8, dtype=dtype) for _ in range(3))
    yield Block().to(dtype)(x, y, Held(z))
