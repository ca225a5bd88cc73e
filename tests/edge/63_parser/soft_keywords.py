# match, case, type, print, exec and _ as names. The right tree, or a refusal of the file.
# exit: 0 3
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn


class SoftKeywords(nn.Module):
    def forward(self, gate, up):
        match = F.silu(gate) * up
        case = match * 2
        type = case.dtype
        _ = {"match": match}
        match.add_(1)
        match [0] = 5
        print = lambda *args: args
        exec = print(match, case)
        match (exec):
            case (a, b) if a is match:
                _ = b
            case [*_]:
                _ = None
        match, case = case, match
        return match, case, str(type), _


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield SoftKeywords()(gate, up)
    yield gate, up
