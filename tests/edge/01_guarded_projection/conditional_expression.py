# Gemma-like: the value projection is missing in some layers. q and k are unconditional, v is
# decided per instance.
# expect: fused linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self, with_v):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8) if with_v else None

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x) if self.v_proj is not None else k
        return q, k, v


def cases(dtype):
    for with_v in (True, False):
        yield Attn(with_v).to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
    attn = Attn(True).to(dtype)
    attn.v_proj = None
    yield attn(torch.randn(2, 3, 8, dtype=dtype))
