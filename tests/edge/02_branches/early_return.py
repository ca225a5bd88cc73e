# k is computed only after a return that may be taken.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self, with_k):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8) if with_k else None

    def forward(self, x, query_only=False):
        q = self.q_proj(x)
        if query_only:
            return q
        k = self.k_proj(x)
        return q + k


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    yield Attn(True).to(dtype)(x)
    yield Attn(True).to(dtype)(x, True)
    yield Attn(False).to(dtype)(x, True)
    yield lambda: Attn(False).to(dtype)(x)
