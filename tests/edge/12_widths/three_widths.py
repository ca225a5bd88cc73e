# q, k and v of three widths, two with a bias.
# expect: fused linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 32)
        self.k_proj = nn.Linear(8, 16, bias=False)
        self.v_proj = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return q, k, v


def cases(dtype):
    attn = Attn().to(dtype)
    for shape in ((2, 3, 8), (3, 8), (8,), (0, 8), (2, 1, 4, 8)):
        yield attn(torch.randn(shape, dtype=dtype))
    yield attn(torch.randn(8, 5, dtype=dtype).t())
