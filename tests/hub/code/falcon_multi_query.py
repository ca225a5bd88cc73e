# Falcon: one key head for all queries inside a fused projection, taken apart by index; parallel
# attention and MLP on one norm; rotation by methods of the embedding module.
# expect: not-fused act_mul
# expect: refused rope FRotary.forward "nearest reference, "
# expect: not-fused linears
import torch
from torch import nn


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=x1.ndim - 1)


class FRotary(nn.Module):
    def __init__(self, head_dim: int):
        super().__init__()
        inv_freq = 1.0 / (10000 ** (torch.arange(0, head_dim, 2).float() / head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def cos_sin(self, seq_len, dtype):
        t = torch.arange(seq_len, dtype=self.inv_freq.dtype)
        freqs = torch.einsum("i,j->ij", t, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos()[None, :, :].type(dtype), emb.sin()[None, :, :].type(dtype)

    def forward(self, q, k):
        batch, seq_len, head_dim = q.shape
        cos, sin = self.cos_sin(seq_len, q.dtype)
        return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


class FAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.num_heads = heads
        self.head_dim = hidden // heads
        self.maybe_rotary = FRotary(self.head_dim)
        self.query_key_value = nn.Linear(hidden, hidden + 2 * self.head_dim, bias=False)
        self.dense = nn.Linear(hidden, hidden, bias=False)

    def _split_heads(self, fused_qkv):
        batch_size, seq_length, _ = fused_qkv.shape
        fused_qkv = fused_qkv.view(batch_size, seq_length, self.num_heads + 2, self.head_dim)
        return fused_qkv[..., :-2, :], fused_qkv[..., [-2], :], fused_qkv[..., [-1], :]

    def forward(self, hidden_states):
        fused_qkv = self.query_key_value(hidden_states)
        query_layer, key_layer, value_layer = self._split_heads(fused_qkv)
        batch_size, q_length, _, _ = query_layer.shape
        query_layer = query_layer.transpose(1, 2).reshape(
            batch_size * self.num_heads, q_length, self.head_dim
        )
        key_layer = key_layer.transpose(1, 2).reshape(batch_size, q_length, self.head_dim)
        value_layer = value_layer.transpose(1, 2).reshape(batch_size, q_length, self.head_dim)
        query_layer, key_layer = self.maybe_rotary(query_layer, key_layer)
        query = query_layer.view(batch_size, self.num_heads, q_length, self.head_dim)
        out = nn.functional.scaled_dot_product_attention(
            query, key_layer[:, None], value_layer[:, None], is_causal=True
        )
        return self.dense(out.transpose(1, 2).reshape(batch_size, q_length, -1))


class FMLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.dense_h_to_4h = nn.Linear(hidden, 4 * hidden, bias=False)
        self.act = nn.GELU()
        self.dense_4h_to_h = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.dense_h_to_4h(x))
        x = self.dense_4h_to_h(x)
        return x


def dropout_add(x, residual, prob, training):
    out = nn.functional.dropout(x, p=prob, training=training)
    out = residual + out
    return out


class FLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attention = FAttention(16, 2)
        self.mlp = FMLP(16)
        self.input_layernorm = nn.LayerNorm(16)

    def forward(self, hidden_states):
        residual = hidden_states
        attention_layernorm_out = self.input_layernorm(hidden_states)
        mlp_layernorm_out = attention_layernorm_out
        attention_output = self.self_attention(attention_layernorm_out)
        mlp_output = self.mlp(mlp_layernorm_out)
        mlp_output += attention_output
        return dropout_add(mlp_output, residual, 0.0, self.training)


def cases(dtype):
    layer = FLayer().to(dtype).eval()
    yield layer(torch.randn(2, 5, 16, dtype=dtype))
