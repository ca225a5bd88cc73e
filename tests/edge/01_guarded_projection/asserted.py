# An assertion stands between the projections: with a missing one it is the assertion that
# fails, not a call of None.
# expect: either linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self, with_k):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        if not with_k:
            self.k_proj = None

    def forward(self, x):
        q = self.q_proj(x)
        assert self.k_proj is not None, "no key projection"
        k = self.k_proj(x)
        return q, k


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    yield Attn(True).to(dtype)(x)
    yield lambda: Attn(False).to(dtype)(x)
