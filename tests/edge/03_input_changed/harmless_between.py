# What stands between the projections reads only; the group is whole.
# expect: fused linears Attn.forward "self\.q_proj, self\.k_proj, self\.v_proj"
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = 4
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x, mask=None):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_proj(x)
        q = q.view(shape).transpose(1, 2)
        length = x.shape[1]
        k = self.k_proj(x)
        k = k.view(shape).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) * length
        v = self.v_proj(x).view(shape).transpose(1, 2)
        return torch.matmul(scores, v)


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
