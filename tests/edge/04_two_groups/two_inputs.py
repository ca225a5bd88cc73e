# Two groups on two inputs, their calls interleaved.
# expect: fused linears Attn.forward x2
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_a = nn.Linear(8, 8)
        self.q_b = nn.Linear(8, 4, bias=False)
        self.k_a = nn.Linear(6, 8)
        self.k_b = nn.Linear(6, 4)

    def forward(self, x, y):
        qa = self.q_a(x)
        ka = self.k_a(y)
        qb = self.q_b(x)
        kb = self.k_b(y)
        return qa, ka, qb, kb


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 5, 6, dtype=dtype))
