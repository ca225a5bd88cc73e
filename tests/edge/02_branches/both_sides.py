# One projection on each side of an if, and one in a loop that may run no times: never both,
# never outside.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.c = nn.Linear(8, 8)

    def forward(self, x, left, times):
        if left:
            y = self.a(x)
        else:
            y = self.b(x)
        for _ in range(times):
            y = y + self.c(x)
        return y


def cases(dtype):
    block, calls = Attn().to(dtype), []
    for name, child in block.named_children():
        child.register_forward_hook(lambda m, a, o, name=name: calls.append(name))
    x = torch.randn(2, 3, 8, dtype=dtype)
    yield [block(x, left, times) for left in (True, False) for times in (0, 2)]
    yield calls
