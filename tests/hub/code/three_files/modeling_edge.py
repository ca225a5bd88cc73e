# The usual model repository: configuration, layers, and the model that uses both.
# expect: fused linears PackAttention.forward
# expect: fused add_rms_norm PackLayer.forward
# expect: fused qk_norm_rope PackAttention.forward "via=apply_rotary_pos_emb"
import torch
from torch import nn

from .configuration_pack import PackConfig
from .layers import PackMLP, PackNorm, apply_rotary_pos_emb


class PackAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.head_dim = config.heads, config.hidden_size // config.heads
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.q_norm = PackNorm(self.head_dim)
        self.k_norm = PackNorm(self.head_dim)

    def forward(self, hidden_states, cos, sin):
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query_states = self.q_norm(self.q_proj(hidden_states).view(shape)).transpose(1, 2)
        key_states = self.k_norm(self.k_proj(hidden_states).view(shape)).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
        out = nn.functional.scaled_dot_product_attention(query_states, key_states, value_states)
        return self.o_proj(out.transpose(1, 2).reshape(hidden_states.shape))


class PackLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = PackAttention(config)
        self.mlp = PackMLP(config)
        self.input_layernorm = PackNorm(config.hidden_size)
        self.post_attention_layernorm = PackNorm(config.hidden_size)

    def forward(self, hidden_states, cos, sin):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(hidden_states, cos, sin)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        return residual + hidden_states


def tables(length, dtype):
    angles = torch.outer(torch.arange(float(length)), torch.tensor([1.0, 0.5, 0.1, 0.01]))
    angles = torch.cat((angles, angles), -1)[None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def cases(dtype):
    layer = PackLayer(PackConfig()).to(dtype)
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield layer(x, *tables(5, dtype))
