# The group stands in the body of a loop, on a value that the loop carries.
# expect: fused linears Block.forward
# expect: fused act_mul Block.forward
import torch
import torch.nn.functional as F
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)

    def forward(self, x, times):
        for _ in range(times):
            gate = self.gate(x)
            up = self.up(x)
            x = x + F.silu(gate) * up
        return x


def cases(dtype):
    for times in (0, 1, 3):
        yield Block().to(dtype)(torch.randn(2, 3, 8, dtype=dtype), times)
