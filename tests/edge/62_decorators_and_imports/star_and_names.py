# Star imports, an import that binds the name of the op namespace, and names deleted at the end
# of the module.
# expect: either act_mul Mlp.forward
import torch
from os.path import *
from torch import nn
from torch.nn.functional import *
from torch.nn import functional as F


class Mlp(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up, silu(gate) * up, basename("a/b")


for ops in range(2):
    tfrewrite = ops


def cases(dtype):
    yield Mlp()(torch.randn(2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype)), ops, tfrewrite
