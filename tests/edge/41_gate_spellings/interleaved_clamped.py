# gpt-oss: gate and up interleaved, clamped, a sigmoid with its own slope, up plus one.
# expect: fused act_mul Experts.forward "packed=.interleaved.*clamp=.before"
import torch
import torch.nn.functional as F
from torch import nn

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(8, 32)
        self.alpha = 1.702
        self.limit = 0.5

    def forward(self, x):
        gate_up = self.gate_up(x)
        gate, up = gate_up[..., ::2], gate_up[..., 1::2]
        gate = gate.clamp(min=None, max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        glu = gate * torch.sigmoid(gate * self.alpha)
        return (up + 1) * glu


def cases(dtype):
    block = Experts().to(dtype)
    yield block(torch.randn(2, 3, 8, dtype=dtype))
    block.limit, block.alpha = 7.0, 1.0
    yield block(torch.randn(2, 3, 8, dtype=dtype))
