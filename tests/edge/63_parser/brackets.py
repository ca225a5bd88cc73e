# Brackets and a comment left of the block they are in. The right tree, or a refusal of the file.
# exit: 0 3
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn


class Brackets(nn.Module):
    def forward(self, gate, up):
        y = torch.add(
    F.silu(gate)
 * up,
# a comment at the left
1,
        )
        z = [
y,
    up]
        if (gate.sum() >
up.sum()): y = y + 1
        return y, z


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield Brackets()(gate, up)
    yield gate, up
