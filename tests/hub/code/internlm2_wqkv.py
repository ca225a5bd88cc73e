# Rows of one projection grouped by key head, taken apart with a rearrange of our own file's kind;
# cos[position_ids] inside the helper; w1, w2, w3.
# expect: fused rms_norm InternRMSNorm.forward
# expect: fused act_mul InternMLP.forward
# expect: fused linears InternMLP.forward
# expect: fused rope InternAttention.forward
# expect: fused add_rms_norm InternLayer.forward
import torch
from torch import nn


def rotate_half(x):
    """Rotates half the hidden dims of the input."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids, unsqueeze_dim=1):
    cos = cos[position_ids].unsqueeze(unsqueeze_dim)
    sin = sin[position_ids].unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class InternRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class InternMLP(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.w1 = nn.Linear(hidden, inner, bias=False)
        self.w3 = nn.Linear(hidden, inner, bias=False)
        self.w2 = nn.Linear(inner, hidden, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        down_proj = self.w2(self.act_fn(self.w1(x)) * self.w3(x))

        return down_proj


class InternAttention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.head_dim = hidden // heads
        self.kv_heads = kv_heads
        self.groups = heads // kv_heads
        self.wqkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.head_dim, bias=False)
        self.wo = nn.Linear(hidden, hidden, bias=False)

    def forward(self, hidden_states, cos, sin, position_ids):
        bsz, q_len, _ = hidden_states.size()
        qkv_states = self.wqkv(hidden_states)
        qkv_states = qkv_states.view(bsz, q_len, self.kv_heads, 2 + self.groups, self.head_dim)
        query_states = qkv_states[..., : self.groups, :]
        query_states = query_states.reshape(bsz, q_len, -1, self.head_dim)
        key_states = qkv_states[..., -2, :]
        value_states = qkv_states[..., -1, :]
        query_states = query_states.transpose(1, 2)
        key_states = key_states.transpose(1, 2)
        value_states = value_states.transpose(1, 2)
        query_states, key_states = apply_rotary_pos_emb(
            query_states, key_states, cos, sin, position_ids
        )
        key_states = key_states.repeat_interleave(self.groups, 1)
        value_states = value_states.repeat_interleave(self.groups, 1)
        out = nn.functional.scaled_dot_product_attention(
            query_states, key_states, value_states, is_causal=True
        )
        return self.wo(out.transpose(1, 2).reshape(bsz, q_len, -1))


class InternLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = InternAttention(16, 4, 2)
        self.feed_forward = InternMLP(16, 24)
        self.attention_norm = InternRMSNorm(16)
        self.ffn_norm = InternRMSNorm(16)

    def forward(self, hidden_states, cos, sin, position_ids):
        residual = hidden_states

        hidden_states = self.attention_norm(hidden_states)
        hidden_states = self.attention(hidden_states, cos, sin, position_ids)
        hidden_states = residual + hidden_states

        # Fully Connected
        residual = hidden_states
        hidden_states = self.ffn_norm(hidden_states)
        hidden_states = self.feed_forward(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states


def cases(dtype):
    layer = InternLayer().to(dtype)
    angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.1]))
    angles = torch.cat((angles, angles), -1)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield layer(x, cos, sin, torch.arange(5)[None])
    yield layer(x, cos, sin, torch.tensor([[0, 0, 1, 2, 3], [3, 4, 5, 6, 7]]))
