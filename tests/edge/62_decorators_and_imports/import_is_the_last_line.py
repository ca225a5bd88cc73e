# The last import is the last line of the file, after everything else.
# expect: either act_mul
import torch
from torch import nn


class Mlp(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up


def cases(dtype):
    yield Mlp()(torch.randn(2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype))


import torch.nn.functional as F  # at last
