# T5 casts only when the weight is half.
# expect: fused rms_norm Norm.forward "cast_by_weight"
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            hidden_states = hidden_states.to(self.weight.dtype)
        return self.weight * hidden_states


def cases(dtype):
    norm = Norm(16)
    for weight in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for given in (torch.float16, dtype, torch.float64):
            yield norm.to(weight)(torch.randn(7, 16).to(given))
