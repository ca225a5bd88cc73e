# One packed projection whose rows are grouped per head: it is no block of q, k and v, and one
# linear has no sibling.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = 2
        self.qkv = nn.Linear(8, 24)
        self.dense = nn.Linear(8, 8)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, self.heads, 12).chunk(3, dim=-1)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
        return self.dense(torch.einsum("bhqk,bkhd->bqhd", scores, v).reshape(b, s, 8))


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
