# Products the other way round, keyword calls, in-place residuals, and one norm used twice.
# expect: fused rms_norm SNorm.forward
# expect: fused act_mul SMlp.forward
# expect: fused linears SMlp.forward
# expect: fused add_rms_norm SBlock.forward
import torch
import torch.nn.functional as F
from torch import nn


class SNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.empty(d).uniform_(0.5, 1.5))
        self.eps = eps

    def forward(self, x: torch.Tensor):
        dtype = x.dtype
        x = x.float()
        y = torch.rsqrt(torch.mean(torch.square(x), dim=-1, keepdim=True) + self.eps)
        return (x * y).to(dtype=dtype) * self.scale


class SMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear_v = nn.Linear(16, 24, bias=False)
        self.linear_1 = nn.Linear(24, 16, bias=False)
        self.linear = nn.Linear(16, 24, bias=False)

    def forward(self, hidden_states):
        return self.linear_1(input=self.linear_v(hidden_states) * F.gelu(input=self.linear(hidden_states)))


class SBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = SNorm(16)
        self.mixer = nn.Linear(16, 16)
        self.mlp = SMlp()

    def forward(self, h):
        h = h + self.mixer(self.norm(h))
        h += self.mlp(self.norm(h))
        return h


def cases(dtype):
    yield SBlock().to(dtype)(torch.randn(2, 5, 16, dtype=dtype))
