# Nested, formatted, concatenated f-strings. The right tree, or a refusal of the file.
# exit: 0 3
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn


class FStrings(nn.Module):
    def forward(self, gate, up):
        w = 12
        y = F.silu(gate) * up
        text = (
            f"{str(y.sum().item()):>{w}.4}" f'{ {"a": w}["a"] }' rf"\d{w:{w}}" f"{{{w}}}"
            f"{(lambda x: x * 2)(w)}" f"{w=}" f"""{
                w}""" "\N{BULLET}"
        ) + b"\xff".hex()
        return y, text


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield FStrings()(gate, up)
    yield gate, up
