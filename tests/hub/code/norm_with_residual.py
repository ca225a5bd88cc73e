# Norms that already add the residual: norm(x, residual) gives both.
# expect: fused act_mul FusedLayer.forward
# expect: fused l2_norm FusedNorm.forward "form=.mean_rsqrt"
# expect: refused rms_norm FusedNorm.forward "(same|one) value"
import torch
from torch import nn


class FusedNorm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, x, residual=None):
        orig_dtype = x.dtype
        if residual is not None:
            x = x + residual
            residual = x
        x = x.to(torch.float32)
        variance = x.pow(2).mean(dim=-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.variance_epsilon)
        x = x.to(orig_dtype) * self.weight
        if residual is None:
            return x
        return x, residual


class FusedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = FusedNorm(16)
        self.attn = nn.Linear(16, 16)
        self.post_attention_layernorm = FusedNorm(16)
        self.gate_up_proj = nn.Linear(16, 48, bias=False)
        self.down_proj = nn.Linear(24, 16, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, hidden_states, residual=None):
        if residual is None:
            residual = hidden_states
            hidden_states = self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.attn(hidden_states)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        gate_up = self.gate_up_proj(hidden_states)
        d = gate_up.shape[-1] // 2
        return self.down_proj(self.act_fn(gate_up[..., :d]) * gate_up[..., d:]), residual


def cases(dtype):
    layers = nn.ModuleList([FusedLayer() for _ in range(2)]).to(dtype)
    x, residual = torch.randn(2, 5, 16, dtype=dtype), None
    for layer in layers:
        x, residual = layer(x, residual)
        yield x, residual
