# StarCoder: c_attn split into queries and one key|value head, learned positions, GELU by tanh.
# expect: fused add_layer_norm BigBlock.forward
# expect: not-fused act_mul
# expect: not-fused linears
# expect: not-fused rope
import torch
import torch.nn.functional as F
from torch import nn


class BigAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.embed_dim = hidden
        self.num_heads = heads
        self.head_dim = hidden // heads
        self.kv_dim = self.head_dim
        self.c_attn = nn.Linear(hidden, hidden + 2 * self.kv_dim)
        self.c_proj = nn.Linear(hidden, hidden)
        self.attn_dropout = nn.Dropout(0.0)

    def forward(self, hidden_states, layer_past=None, head_mask=None, use_cache=False):
        query, key_value = self.c_attn(hidden_states).split(
            (self.embed_dim, 2 * self.kv_dim), dim=2
        )
        if layer_past is not None:
            key_value = torch.cat((layer_past, key_value), dim=-2)
        present = key_value if use_cache else None
        key, value = key_value.split((self.head_dim, self.head_dim), dim=-1)
        b, s, _ = query.shape
        query = query.reshape(b, s * self.num_heads, self.head_dim)
        scores = torch.baddbmm(
            query.new_zeros(()).expand(b, s * self.num_heads, key.shape[1]),
            query,
            key.transpose(-1, -2),
            beta=0,
            alpha=self.head_dim**-0.5,
        )
        weights = self.attn_dropout(F.softmax(scores, dim=-1))
        if head_mask is not None:
            weights = head_mask * weights
        out = torch.bmm(weights, value).view(b, s, self.embed_dim)
        return self.c_proj(out), present


class BigMLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.c_fc = nn.Linear(hidden, 4 * hidden)
        self.c_proj = nn.Linear(4 * hidden, hidden)
        self.act = nn.GELU(approximate="tanh")
        self.dropout = nn.Dropout(0.0)

    def forward(self, hidden_states):
        hidden_states = self.c_fc(hidden_states)
        hidden_states = self.act(hidden_states)
        hidden_states = self.c_proj(hidden_states)
        hidden_states = self.dropout(hidden_states)
        return hidden_states


class BigBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(16, eps=1e-5)
        self.attn = BigAttention(16, 2)
        self.ln_2 = nn.LayerNorm(16, eps=1e-5)
        self.mlp = BigMLP(16)

    def forward(self, hidden_states, layer_past=None, use_cache=False):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attn_outputs = self.attn(hidden_states, layer_past, use_cache=use_cache)
        attn_output = attn_outputs[0]
        outputs = attn_outputs[1:]
        hidden_states = attn_output + residual
        residual = hidden_states
        hidden_states = self.ln_2(hidden_states)
        feed_forward_hidden_states = self.mlp(hidden_states)
        hidden_states = residual + feed_forward_hidden_states
        return (hidden_states,) + outputs


def cases(dtype):
    block = BigBlock().to(dtype).eval()
    x = torch.randn(2, 4, 16, dtype=dtype)
    out, past = block(x, use_cache=True)
    yield out, past
    yield block(x[:, :1], past)
