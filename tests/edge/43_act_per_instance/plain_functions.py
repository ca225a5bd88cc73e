# A plain function of the file as activation, whose body is pure, whose body writes, and one
# that is replaced later.
# expect: either act_mul
# expect: either linears
import torch
import torch.nn.functional as F
from torch import nn

LOG = []


def pure(x):
    return x * torch.sigmoid(1.702 * x)


def writing(x):
    LOG.append(float(x.sum()))
    return x.clamp_(min=0)


class Pure(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)

    def forward(self, x):
        return pure(self.gate(x)) * self.up(x)


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)

    def forward(self, x):
        gate, up = self.gate(x), self.up(x)
        return writing(gate) * up, gate


def cases(dtype):
    global pure
    x = torch.randn(3, 8, dtype=dtype)
    with torch.no_grad():
        for kind in (Pure, Writing):
            block = kind().to(dtype)
            yield block(x)
            pure = torch.tanh
            yield block(x)
        yield LOG
