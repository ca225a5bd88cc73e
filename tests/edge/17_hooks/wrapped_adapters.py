# Projections replaced after construction by adapter wrappers, as PEFT does, and by a subclass
# with its own __call__.
# expect: fused linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        return q, k, v


class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.down = nn.Linear(8, 2, bias=False)
        self.up = nn.Linear(2, 8, bias=False)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.base_layer(x) + self.up(self.down(self.dropout(x)))


class Called(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) + 1


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    attn = Attn().to(dtype)
    attn.q_proj, attn.v_proj = Adapter(attn.q_proj).to(dtype), Adapter(attn.v_proj).to(dtype)
    yield attn(x)
    attn = Attn().to(dtype)
    attn.k_proj = Called(8, 8).to(dtype)
    yield attn(x)
    attn.k_proj = torch.compile(nn.Identity(), backend="eager")
    yield attn(x)
