# ChatGLM: [s, b, h] layout, one packed projection with few key heads, rotary cache stacked in the
# last dimension, swiglu by chunk of one projection.
# expect: fused rms_norm RMSNorm.forward
# expect: refused rope apply_rotary_pos_emb "nearest reference, "
# expect: not-fused add_rms_norm GLMBlock.forward
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn


def apply_rotary_pos_emb(x: torch.Tensor, rope_cache: torch.Tensor) -> torch.Tensor:
    # x: [sq, b, np, hn]
    sq, b, np, hn = x.size(0), x.size(1), x.size(2), x.size(3)
    rot_dim = rope_cache.shape[-2] * 2
    x, x_pass = x[..., :rot_dim], x[..., rot_dim:]
    # truncate to support variable sizes
    rope_cache = rope_cache[:sq]
    xshaped = x.reshape(sq, -1, np, rot_dim // 2, 2)
    rope_cache = rope_cache.view(sq, -1, 1, xshaped.size(3), 2)
    x_out2 = torch.stack(
        [
            xshaped[..., 0] * rope_cache[..., 0] - xshaped[..., 1] * rope_cache[..., 1],
            xshaped[..., 1] * rope_cache[..., 0] + xshaped[..., 0] * rope_cache[..., 1],
        ],
        -1,
    )
    x_out2 = x_out2.flatten(3)
    return torch.cat((x_out2, x_pass), dim=-1)


class RMSNorm(torch.nn.Module):
    def __init__(self, normalized_shape, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(normalized_shape).uniform_(0.5, 1.5))
        self.eps = eps

    def forward(self, hidden_states: torch.Tensor):
        input_dtype = hidden_states.dtype
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.eps)
        return (self.weight * hidden_states).to(input_dtype)


class MLP(torch.nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(hidden, inner * 2, bias=False)

        def swiglu(x):
            x = torch.chunk(x, 2, dim=-1)
            return F.silu(x[0]) * x[1]

        self.activation_func = swiglu
        self.dense_4h_to_h = nn.Linear(inner, hidden, bias=False)

    def forward(self, hidden_states):
        # [s, b, 4hp]
        intermediate_parallel = self.dense_h_to_4h(hidden_states)
        intermediate_parallel = self.activation_func(intermediate_parallel)
        # [s, b, h]
        output = self.dense_4h_to_h(intermediate_parallel)
        return output


class SelfAttention(torch.nn.Module):
    def __init__(self, hidden, heads, groups):
        super().__init__()
        self.head = hidden // heads
        self.heads, self.groups = heads, groups
        self.query_key_value = nn.Linear(hidden, hidden + 2 * groups * self.head)
        self.dense = nn.Linear(hidden, hidden, bias=False)

    def forward(self, hidden_states, rotary_pos_emb, kv_cache=None, use_cache=True):
        mixed_x_layer = self.query_key_value(hidden_states)
        (query_layer, key_layer, value_layer) = mixed_x_layer.split(
            [self.heads * self.head, self.groups * self.head, self.groups * self.head], dim=-1
        )
        query_layer = query_layer.view(query_layer.size()[:-1] + (self.heads, self.head))
        key_layer = key_layer.view(key_layer.size()[:-1] + (self.groups, self.head))
        value_layer = value_layer.view(value_layer.size()[:-1] + (self.groups, self.head))
        # apply relative positional encoding (rotary embedding)
        if rotary_pos_emb is not None:
            query_layer = apply_rotary_pos_emb(query_layer, rotary_pos_emb)
            key_layer = apply_rotary_pos_emb(key_layer, rotary_pos_emb)
        # adjust key and value for inference
        if kv_cache is not None:
            cache_k, cache_v = kv_cache
            key_layer = torch.cat((cache_k, key_layer), dim=0)
            value_layer = torch.cat((cache_v, value_layer), dim=0)
        if use_cache:
            kv_cache = (key_layer, value_layer)
        else:
            kv_cache = None
        repeat = self.heads // self.groups
        key_layer = key_layer.unsqueeze(-2).expand(-1, -1, -1, repeat, -1).flatten(2, 3)
        value_layer = value_layer.unsqueeze(-2).expand(-1, -1, -1, repeat, -1).flatten(2, 3)
        q, k, v = [t.permute(1, 2, 0, 3) for t in (query_layer, key_layer, value_layer)]
        context = F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3)
        return self.dense(context.reshape(context.size()[:-2] + (-1,))), kv_cache


class GLMBlock(torch.nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.apply_residual_connection_post_layernorm = False
        self.hidden_dropout = 0.0
        self.input_layernorm = RMSNorm(hidden)
        self.self_attention = SelfAttention(hidden, 4, 2)
        self.post_attention_layernorm = RMSNorm(hidden)
        self.mlp = MLP(hidden, 24)

    def forward(self, hidden_states, rotary_pos_emb, kv_cache=None):
        layernorm_output = self.input_layernorm(hidden_states)
        attention_output, kv_cache = self.self_attention(layernorm_output, rotary_pos_emb, kv_cache)
        # Residual connection.
        if self.apply_residual_connection_post_layernorm:
            residual = layernorm_output
        else:
            residual = hidden_states
        layernorm_input = F.dropout(attention_output, p=self.hidden_dropout, training=self.training)
        layernorm_input = residual + layernorm_input
        layernorm_output = self.post_attention_layernorm(layernorm_input)
        mlp_output = self.mlp(layernorm_output)
        output = F.dropout(mlp_output, p=self.hidden_dropout, training=self.training)
        output = layernorm_input + output
        return output, kv_cache


def cache(length, dim, dtype):
    theta = 1.0 / (10000 ** (torch.arange(0, dim, 2) / dim))
    idx = torch.outer(torch.arange(length).float(), theta)
    return torch.stack([torch.cos(idx), torch.sin(idx)], dim=-1)[:, None].to(dtype)


def cases(dtype):
    block = GLMBlock().to(dtype).eval()
    x = torch.randn(5, 2, 16, dtype=dtype)
    out, kv = block(x, cache(5, 2, dtype))
    yield out, kv
    yield block(x[:1], cache(1, 2, dtype), kv)
