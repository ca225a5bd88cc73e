# The guard is a statement; k_proj does not even exist in the other instance.
# expect: either linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared
        self.q_proj = nn.Linear(8, 8)
        if not shared:
            self.k_proj = nn.Linear(8, 8)
            self.v_proj = nn.Linear(8, 8)

    def forward(self, x, kv=None):
        q = self.q_proj(x)
        if self.shared:
            k, v = kv
        else:
            k = self.k_proj(x)
            v = self.v_proj(x)
        return q, k, v


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    yield Attn(False).to(dtype)(x)
    yield Attn(True).to(dtype)(x, (x, x + 1))
    yield lambda: Attn(True).to(dtype)(x)
