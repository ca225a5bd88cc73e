# A projection that may be missing is tried; another one hangs behind `and`.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self, with_k):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        if with_k:
            self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x, want_v):
        q = self.q_proj(x)
        try:
            k = self.k_proj(x)
        except AttributeError:
            k = q
        v = want_v and self.v_proj(x)
        return q, k, v


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for with_k in (True, False):
        for want_v in (True, False):
            yield Attn(with_k).to(dtype)(x, want_v)
