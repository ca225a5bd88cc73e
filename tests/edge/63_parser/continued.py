# Lines joined by backslashes in odd places. The right tree, or a refusal of the file.
# exit: 0 3
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn


class Continued(nn.Module):
    def forward(self, gate, \
                up):
        if gate is not up and \
           up is not None \
        :
            y = \
                F.silu(gate) \
                    * \
  up
        return \
            y


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield Continued()(gate, up)
    yield gate, up
