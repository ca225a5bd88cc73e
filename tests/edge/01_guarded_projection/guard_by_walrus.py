# The guard binds the module to a local name.
# expect: either linears Attn.forward
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
        v = proj(x) if (proj := self.v_proj) is not None else q
        k = self.k_proj(x)
        return q, k, v, proj is None


def cases(dtype):
    for with_v in (True, False):
        yield Attn(with_v).to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
