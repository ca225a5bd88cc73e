# InternLM2-like: rows ordered by KV head, q's of a group first.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.wqkv = nn.Linear(8, 16)

    def forward(self, x):
        b, s, _ = x.shape
        packed = self.wqkv(x).view(b, s, 2, 4, 2)
        q = packed[..., :2, :].reshape(b, s, 4, 2)
        return q, packed[..., -2, :], packed[..., -1, :]


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
