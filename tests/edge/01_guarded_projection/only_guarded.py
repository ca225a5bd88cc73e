# Both candidates are guarded by themselves: one that is absent must not be called, and no third
# one is made up.
# expect: either linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self, with_k, with_v):
        super().__init__()
        self.k_proj = nn.Linear(8, 8) if with_k else None
        self.v_proj = nn.Linear(8, 8) if with_v else None

    def forward(self, x):
        k = self.k_proj(x) if self.k_proj is not None else x
        v = self.v_proj(x) if self.v_proj is not None else k
        return k, v


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for with_k in (True, False):
        for with_v in (True, False):
            yield Attn(with_k, with_v).to(dtype)(x)
