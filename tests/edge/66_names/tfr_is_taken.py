# `tfr` is a function of the file, a parameter, a local, an attribute, a global written later:
# the ops come under a free name.
# expect: either act_mul
# expect: either linears
import torch
import torch.nn.functional as F
from torch import nn

def tfr(x):
    return x + 100


class Global(nn.Module):
    def forward(self, gate, up):
        return tfr(F.silu(gate) * up)


class Parameter(nn.Module):
    def forward(self, gate, up, tfr=3.0):
        return F.silu(gate) * up * tfr


class Local(nn.Module):
    def forward(self, gate, up):
        tfr = gate * 2
        y = F.silu(gate) * up
        return y + tfr


class LocalLater(nn.Module):
    def forward(self, gate, up):
        y = F.silu(gate) * up
        for tfr in (1, 2):
            y = y * tfr
        return y


class ClassBody(nn.Module):
    tfr = 5
    ops = 6

    def forward(self, gate, up):
        return F.silu(gate) * up + self.tfr + self.ops


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    for kind in (Global, Parameter, Local, LocalLater, ClassBody):
        yield kind()(gate, up)
    yield tfr(gate)
