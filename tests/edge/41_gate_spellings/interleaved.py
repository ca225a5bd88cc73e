# Every second element is the gate.
# expect: fused act_mul First.forward "interleaved"
# expect: either act_mul Second.forward
import torch
import torch.nn.functional as F
from torch import nn

class First(nn.Module):
    def forward(self, gate_up):
        gate, up = gate_up[..., ::2], gate_up[..., 1::2]
        return F.silu(gate) * up


class Second(nn.Module):
    def forward(self, gate_up):
        up, gate = gate_up[..., ::2], gate_up[..., 1::2]
        return F.silu(gate) * up


def cases(dtype):
    for kind in (First, Second):
        yield kind()(torch.randn(2, 3, 8, dtype=dtype))
        yield lambda: kind()(torch.randn(2, 3, 7, dtype=dtype))
