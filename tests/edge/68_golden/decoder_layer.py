# A whole decoder layer of the usual shape: the counts are what a lost match would change.
# expect: fused rms_norm TinyRMSNorm.forward x1
# expect: fused linears TinyMLP.forward x1
# expect: fused act_mul TinyMLP.forward x1
# expect: fused linears TinyAttention.forward x1
# expect: fused qk_norm_rope TinyAttention.forward x1 "out=.bhsd"
# expect: fused add_rms_norm TinyDecoderLayer.forward x1
import torch
import torch.nn.functional as F
from torch import nn

class TinyRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class TinyMLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return down_proj


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class TinyAttention(nn.Module):
    def __init__(self, hidden_size, heads, kv_heads, head_dim):
        super().__init__()
        self.head_dim = head_dim
        self.groups = heads // kv_heads
        self.q_proj = nn.Linear(hidden_size, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden_size, bias=False)
        self.q_norm = TinyRMSNorm(head_dim)
        self.k_norm = TinyRMSNorm(head_dim)

    def forward(self, hidden_states, position_embeddings, cache=None):
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)

        query_states = self.q_norm(self.q_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
        key_states = self.k_norm(self.k_proj(hidden_states).view(hidden_shape)).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)

        cos, sin = position_embeddings
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)

        if cache is not None:
            key_states, value_states = cache.update(key_states, value_states)

        key_states = key_states.repeat_interleave(self.groups, 1)
        value_states = value_states.repeat_interleave(self.groups, 1)
        attn_output = F.scaled_dot_product_attention(query_states, key_states, value_states)
        attn_output = attn_output.transpose(1, 2).reshape(*input_shape, -1).contiguous()
        return self.o_proj(attn_output)


class TinyDecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = TinyAttention(16, 4, 2, 8)
        self.mlp = TinyMLP(16, 24)
        self.input_layernorm = TinyRMSNorm(16)
        self.post_attention_layernorm = TinyRMSNorm(16)

    def forward(self, hidden_states, position_embeddings, cache=None):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(
            hidden_states=hidden_states, position_embeddings=position_embeddings, cache=cache
        )
        hidden_states = residual + hidden_states

        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


class Cache:
    def __init__(self):
        self.k = self.v = None

    def update(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return self.k, self.v


def cases(dtype):
    layer, cache = TinyDecoderLayer().to(dtype), Cache()
    for length in (1, 7):
        x = torch.randn(2, length, 16, dtype=dtype)
        cos, sin = torch.randn(2, length, 8, dtype=dtype), torch.randn(2, length, 8, dtype=dtype)
        yield layer(x, (cos, sin))
        yield layer(x, (cos, sin), cache), cache.k, cache.v
