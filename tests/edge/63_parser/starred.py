# Starred attributes in lists, calls, loops and returns (`[*a.b]`). The right tree, or a refusal
# of the file.
# exit: 0 3
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn
import types


class Starred(nn.Module):
    def forward(self, gate, up):
        held = types.SimpleNamespace(parts=(F.silu(gate) * up, up), more={"min": 0.1})
        a = [*held.parts]
        b = [*held.parts, F.silu(up) * gate, *held.parts[::-1]]
        c = (*held.parts, gate)
        d = {*held.more.keys()}
        e = {**held.more, "max": 0.5}
        f = torch.clamp(gate, **held.more)
        g = max(*held.parts[0].flatten().tolist(), 2)
        for h in *held.parts, gate:
            up = up + h
        return *held.parts, a, b, c, sorted(d), e, f, g, up


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield Starred()(gate, up)
    yield gate, up
