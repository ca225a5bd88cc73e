# The name is used otherwise too: its weight decides a dtype, its truth decides a branch. Those
# uses stay as they are.
# expect: either linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self, with_v):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8) if with_v else None

    def forward(self, x, y):
        q = self.q_proj(x)
        v = self.v_proj and self.v_proj(x)
        if self.v_proj is not None:
            y = y.to(self.v_proj.weight.dtype) * self.v_proj.weight.sum()
        return q, v, self.v_proj and y


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for with_v in (True, False):
        yield Attn(with_v).to(dtype)(x, torch.ones(3, dtype=torch.float64))
