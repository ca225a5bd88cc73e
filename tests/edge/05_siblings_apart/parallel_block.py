# A parallel block: attention and MLP on one input. The MLP's projections are not merged with
# the attention's.
# expect: fused linears Block.forward x2
# expect: fused act_mul Block.forward
# expect: no-text "linears\([^)]*q_proj[^)]*up_proj"
# expect: no-text "linears\([^)]*v_proj[^)]*gate_proj"
import torch
import torch.nn.functional as F
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 4)
        self.v_proj = nn.Linear(8, 4)
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        h = self.act_fn(self.gate_proj(x)) * self.up_proj(x)
        return q, k, v, h


def cases(dtype):
    yield Block().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
