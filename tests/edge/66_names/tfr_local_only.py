# `tfr` is only a local of one function. There it hides the import.
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn

class Local(nn.Module):
    def forward(self, gate, up):
        tfr = gate * 2
        y = F.silu(gate) * up
        return y + tfr


class Comprehension(nn.Module):
    def forward(self, gate, up):
        return [F.silu(gate) * up + tfr for tfr in (1, 2)], (lambda tfr: F.silu(gate) * up * tfr)(2)


class Nested(nn.Module):
    def forward(self, gate, up):
        tfr = 4

        def inner(g):
            return F.silu(g) * up + tfr

        return inner(gate)


class Assigned(nn.Module):
    def forward(self, gate, up):
        global tfr
        tfr = 9
        return F.silu(gate) * up + tfr


class Other(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    for kind in (Local, Comprehension, Nested, Other, Assigned, Other):
        yield kind()(gate, up)
