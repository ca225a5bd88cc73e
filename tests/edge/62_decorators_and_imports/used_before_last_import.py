# The class is used at module level before the file's last import: the op must be there by then.
# expect: either act_mul Mlp.forward
# expect: either rms_norm Mlp.forward
import torch
import torch.nn.functional as F
from torch import nn

class Mlp(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up


FIRST = Mlp()(torch.ones(2, 3), torch.full((2, 3), 2.0))

import math


def cases(dtype):
    yield FIRST, math.e
    yield Mlp()(torch.randn(2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype))
