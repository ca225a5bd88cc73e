# A norm whose weight is stored around zero, a scaled embedding rounded to the model's dtype, GeGLU
# by tanh, norms before and after each block, soft-capped logits.
# expect: fused rms_norm OffsetNorm.forward
# expect: fused act_mul GeGLU.forward
# expect: fused linears GeGLU.forward
# expect: fused add_rms_norm SandwichLayer.forward
# expect: fused softcap Tiny.forward
import torch
from torch import nn


class OffsetNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim).uniform_(-0.5, 0.5))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float())
        output = output * (1.0 + self.weight.float())
        return output.type_as(x)


class GeGLU(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)
        self.act_fn = nn.GELU(approximate="tanh")

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class SandwichLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(16, 16)
        self.mlp = GeGLU(16, 24)
        self.input_layernorm = OffsetNorm(16)
        self.post_attention_layernorm = OffsetNorm(16)
        self.pre_feedforward_layernorm = OffsetNorm(16)
        self.post_feedforward_layernorm = OffsetNorm(16)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.attn(hidden_states)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.pre_feedforward_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.layer = SandwichLayer()
        self.norm = OffsetNorm(16)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        normalizer = torch.tensor(16**0.5, dtype=hidden.dtype)
        hidden = hidden * normalizer
        hidden = self.norm(self.layer(hidden))
        logits = hidden @ self.embed.weight.t()
        logits = logits / 30.0
        logits = torch.tanh(logits)
        logits = logits * 30.0
        return logits


def cases(dtype):
    yield Tiny().to(dtype)(torch.tensor([[1, 2, 3, 11]]))
