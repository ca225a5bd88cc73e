# Nemotron: LayerNorm with the weight shifted by one, squared ReLU without a gate, rotation of half
# of the head.
# expect: fused linears NAttention.forward
# expect: fused rope NAttention.forward
# expect: not-fused act_mul
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm1P(nn.LayerNorm):
    def __init__(self, normalized_shape, eps=1e-5):
        super().__init__(normalized_shape, eps, True, True)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight + 1, self.bias, self.eps)


class ReLUSquared(nn.Module):
    def forward(self, x):
        return torch.square(F.relu(x))


class NMLP(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)
        self.act_fn = ReLUSquared()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.up_proj(x)))


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    rot_dim = cos.shape[-1]
    # If q_pass/k_pass is empty, rotary pos embedding is applied to all tensor q/k states
    q, q_pass = q[..., :rot_dim], q[..., rot_dim:]
    k, k_pass = k[..., :rot_dim], k[..., rot_dim:]
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return torch.cat((q_embed, q_pass), dim=-1), torch.cat((k_embed, k_pass), dim=-1)


class NAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.head_dim = heads, hidden // heads
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        q = self.q_proj(x).view(b, s, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, s, self.heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, s, self.heads, self.head_dim).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, -1))


class NLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = NAttention(16, 2)
        self.mlp = NMLP(16, 32)
        self.input_layernorm = LayerNorm1P(16)
        self.post_attention_layernorm = LayerNorm1P(16)

    def forward(self, hidden_states, cos, sin):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states = self.self_attn(hidden_states, cos, sin)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        return residual + hidden_states


def cases(dtype):
    angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
    angles = torch.cat((angles, angles), -1)[None]
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield NLayer().to(dtype)(x, angles.cos().to(dtype), angles.sin().to(dtype))
