# Qwen3-Next: q_proj gives query and gate, interleaved by head.
# expect: fused linears Attn.forward "self\.q_proj, self\.k_proj, self\.v_proj"
# expect: either act_mul Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = 4
        self.q_proj = nn.Linear(8, 16)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)
        self.o_proj = nn.Linear(8, 8)

    def forward(self, x):
        shape = x.shape[:-1]
        q, gate = torch.chunk(self.q_proj(x).view(*shape, -1, self.head_dim * 2), 2, dim=-1)
        gate = gate.reshape(*shape, -1)
        k = self.k_proj(x).view(*shape, -1, self.head_dim)
        v = self.v_proj(x).view(*shape, -1, self.head_dim)
        out = F.scaled_dot_product_attention(q, k, v).reshape(*shape, -1)
        return self.o_proj(out * torch.sigmoid(gate))


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
