# Statements on one line, with their rarer forms. The right tree, or a refusal of the file.
# exit: 0 3
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn


class Statements(nn.Module):
    def forward(self, gate, up):
        with torch.no_grad(), torch.enable_grad(): y = F.silu(gate) * up
        with (torch.no_grad(), torch.no_grad() as n,): z = y + 1
        try: raise ValueError
        except* ValueError as group: m = len(group.exceptions)
        del (n)
        assert (y is not z), (y, z)
        lambda: (yield)
        if y is z: pass
        elif z is y: return None
        else: y = y; z = z;
        return y, z, m


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield Statements()(gate, up)
    yield gate, up
