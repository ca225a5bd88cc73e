# GPT-NeoX: q, k and v of each head side by side; rotation of a part; parallel residual or not, by
# configuration.
# expect: fused rope XAttention.forward
# expect: fused add_layer_norm XLayer.forward
# expect: not-fused act_mul
import torch
from torch import nn


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class XAttention(nn.Module):
    def __init__(self, hidden, heads, rotary_ndims):
        super().__init__()
        self.heads, self.head_size, self.rotary_ndims = heads, hidden // heads, rotary_ndims
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, hidden_states, cos, sin):
        qkv = self.query_key_value(hidden_states)
        new_qkv_shape = qkv.size()[:-1] + (self.heads, 3 * self.head_size)
        qkv = qkv.view(*new_qkv_shape)
        query = qkv[..., : self.head_size].permute(0, 2, 1, 3)
        key = qkv[..., self.head_size : 2 * self.head_size].permute(0, 2, 1, 3)
        value = qkv[..., 2 * self.head_size :].permute(0, 2, 1, 3)
        query_rot = query[..., : self.rotary_ndims]
        query_pass = query[..., self.rotary_ndims :]
        key_rot = key[..., : self.rotary_ndims]
        key_pass = key[..., self.rotary_ndims :]
        query_rot = (query_rot * cos) + (rotate_half(query_rot) * sin)
        key_rot = (key_rot * cos) + (rotate_half(key_rot) * sin)
        query = torch.cat((query_rot, query_pass), dim=-1)
        key = torch.cat((key_rot, key_pass), dim=-1)
        out = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.dense(out.permute(0, 2, 1, 3).reshape(hidden_states.shape))


class XLayer(nn.Module):
    def __init__(self, parallel):
        super().__init__()
        self.use_parallel_residual = parallel
        self.input_layernorm = nn.LayerNorm(16)
        self.post_attention_layernorm = nn.LayerNorm(16)
        self.attention = XAttention(16, 2, 4)
        self.dense_h_to_4h, self.dense_4h_to_h = nn.Linear(16, 32), nn.Linear(32, 16)
        self.act = nn.GELU()

    def mlp(self, x):
        return self.dense_4h_to_h(self.act(self.dense_h_to_4h(x)))

    def forward(self, hidden_states, cos, sin):
        attn_output = self.attention(self.input_layernorm(hidden_states), cos, sin)
        if self.use_parallel_residual:
            mlp_output = self.mlp(self.post_attention_layernorm(hidden_states))
            hidden_states = mlp_output + attn_output + hidden_states
        else:
            attn_output = attn_output + hidden_states
            mlp_output = self.mlp(self.post_attention_layernorm(attn_output))
            hidden_states = mlp_output + attn_output
        return hidden_states


def cases(dtype):
    angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
    angles = torch.cat((angles, angles), -1)[None, None]
    x = torch.randn(2, 5, 16, dtype=dtype)
    for parallel in (False, True):
        yield XLayer(parallel).to(dtype)(x, angles.cos().to(dtype), angles.sin().to(dtype))
