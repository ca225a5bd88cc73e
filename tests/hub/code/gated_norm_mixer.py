# A mixer that ends in a gated norm, in both orders: the gate before the norm and behind it.
# expect: fused gated_rms_norm NormThenGate.forward
# expect: fused gated_rms_norm GateThenNorm.forward
# expect: fused linears GatedMixer.forward
import torch
import torch.nn.functional as F
from torch import nn


class NormThenGate(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, hidden_states, gate=None):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        hidden_states = self.weight * hidden_states.to(input_dtype)
        hidden_states = hidden_states * F.silu(gate.to(torch.float32))
        return hidden_states.to(input_dtype)


class GateThenNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, hidden_states, gate=None):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        if gate is not None:
            hidden_states = hidden_states * nn.functional.silu(gate.to(torch.float32))
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class GatedMixer(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.in_proj_qkv = nn.Linear(16, 16)
        self.in_proj_z = nn.Linear(16, 16)
        self.norm = norm(16)
        self.out_proj = nn.Linear(16, 16)

    def forward(self, x):
        mixed = self.in_proj_qkv(x)
        z = self.in_proj_z(x)
        return self.out_proj(self.norm(mixed.cumsum(1), z))


def cases(dtype):
    x = torch.randn(2, 5, 16, dtype=dtype)
    for norm in (NormThenGate, GateThenNorm):
        yield GatedMixer(norm).to(dtype)(x)
