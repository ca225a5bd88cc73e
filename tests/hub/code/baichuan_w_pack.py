# One packed projection, unflattened into three and unbound; RMSNorm in half precision; swiglu.
# expect: fused rms_norm RMSNorm.forward
# expect: fused act_mul MLP.forward
# expect: fused linears MLP.forward
# expect: fused add_rms_norm Layer.forward
# expect: not-fused linears Attention.forward
import math

import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, hidden_size, epsilon=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size).uniform_(0.5, 1.5))
        self.epsilon = epsilon

    def forward(self, hidden_states):
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.epsilon)

        # convert into half-precision
        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            hidden_states = hidden_states.to(self.weight.dtype)

        return self.weight * hidden_states


class MLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Attention(nn.Module):
    """Position by ALiBi: a bias on the scores, nothing is rotated."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.W_pack = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, past_key_value=None, use_cache=False):
        bsz, q_len, _ = hidden_states.size()
        proj = self.W_pack(hidden_states)
        proj = proj.unflatten(-1, (3, self.hidden_size)).unsqueeze(0).transpose(0, -2).squeeze(-2)
        query_states = proj[0].view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        key_states = proj[1].view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        value_states = proj[2].view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        if past_key_value is not None:
            key_states = torch.cat([past_key_value[0], key_states], dim=2)
            value_states = torch.cat([past_key_value[1], value_states], dim=2)
        past_key_value = (key_states, value_states) if use_cache else None
        weights = torch.matmul(query_states, key_states.transpose(2, 3)) / math.sqrt(self.head_dim)
        if attention_mask is not None:
            weights = weights + attention_mask[:, : key_states.shape[2]]
        weights = nn.functional.softmax(weights, dim=-1)
        attn_output = torch.matmul(weights, value_states).transpose(1, 2)
        return self.o_proj(attn_output.reshape(bsz, q_len, self.hidden_size)), past_key_value


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = Attention(16, 2)
        self.mlp = MLP(16, 24)
        self.input_layernorm = RMSNorm(16)
        self.post_attention_layernorm = RMSNorm(16)

    def forward(self, hidden_states, attention_mask=None, past_key_value=None, use_cache=False):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, present = self.self_attn(
            hidden_states, attention_mask, past_key_value, use_cache
        )
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        outputs = (hidden_states,)
        if use_cache:
            outputs += (present,)
        return outputs


def alibi(heads, length):
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)])
    return slopes[:, None, None] * torch.arange(length)[None, None, :].expand(1, length, -1)


def cases(dtype):
    layer = Layer().to(dtype)
    x = torch.randn(2, 5, 16, dtype=dtype)
    out, cache = layer(x, alibi(2, 5).to(dtype), use_cache=True)
    yield out, cache
    yield layer(x[:, :1], None, cache)
