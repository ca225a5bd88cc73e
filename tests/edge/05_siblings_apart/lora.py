# The low-rank branch of an adapter reads the same input; it stays apart from the projections it
# adapts.
# expect: fused linears Attn.forward
# expect: no-text "linears\([^)]*lora_a"
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)
        self.lora_a = nn.Linear(8, 2, bias=False)
        self.lora_b = nn.Linear(2, 8, bias=False)

    def forward(self, x):
        q = self.q_proj(x) + self.lora_b(self.lora_a(x)) * 0.5
        k = self.k_proj(x)
        v = self.v_proj(x)
        return q, k, v


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
