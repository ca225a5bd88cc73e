# Between the projections something may raise; then k_proj, which counts its calls, must not
# have run.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)

    def forward(self, x, mask):
        q = self.q_proj(x)
        if mask.dim() != 2:
            raise ValueError("mask must be 2-D")
        k = self.k_proj(x)
        return q, k


def cases(dtype):
    attn, calls = Attn().to(dtype), []
    attn.k_proj.register_forward_hook(lambda m, a, o: calls.append("k"))
    x = torch.randn(2, 3, 8, dtype=dtype)
    yield attn(x, torch.ones(2, 2))
    yield lambda: attn(x, torch.ones(2))
    yield calls
