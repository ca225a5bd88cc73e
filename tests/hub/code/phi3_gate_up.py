# Phi-3: gate and up in one projection, q|k|v in another, sliced by position; one attention class
# per backend, chosen from a dict.
# expect: fused rms_norm PRMSNorm.forward
# expect: fused act_mul PMLP.forward
# expect: fused rope PAttention.heads
# expect: fused add_rms_norm PLayer.forward
# expect: not-fused rope PAttention.forward
# expect: not-fused rope PSdpaAttention.forward
import torch
from torch import nn

ACT2FN = {"silu": nn.SiLU, "gelu": nn.GELU}


class PRMSNorm(nn.Module):
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


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class PMLP(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_up_proj = nn.Linear(hidden, 2 * inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)
        self.activation_fn = nn.SiLU()

    def forward(self, hidden_states: torch.FloatTensor) -> torch.FloatTensor:
        up_states = self.gate_up_proj(hidden_states)

        gate, up_states = up_states.chunk(2, dim=-1)
        up_states = up_states * self.activation_fn(gate)

        return self.down_proj(up_states)


class PAttention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.num_heads, self.num_key_value_heads = heads, kv_heads
        self.head_dim = hidden // heads
        self.qkv_proj = nn.Linear(hidden, (heads + 2 * kv_heads) * self.head_dim, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def heads(self, hidden_states, cos, sin):
        bsz, q_len, _ = hidden_states.size()
        qkv = self.qkv_proj(hidden_states)
        query_pos = self.num_heads * self.head_dim
        query_states = qkv[..., :query_pos]
        key_states = qkv[..., query_pos : query_pos + self.num_key_value_heads * self.head_dim]
        value_states = qkv[..., query_pos + self.num_key_value_heads * self.head_dim :]
        query_states = query_states.view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        key_states = key_states.view(
            bsz, q_len, self.num_key_value_heads, self.head_dim
        ).transpose(1, 2)
        value_states = value_states.view(
            bsz, q_len, self.num_key_value_heads, self.head_dim
        ).transpose(1, 2)
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
        repeat = self.num_heads // self.num_key_value_heads
        return query_states, key_states.repeat_interleave(repeat, 1), value_states.repeat_interleave(repeat, 1)

    def forward(self, hidden_states, cos, sin):
        q, k, v = self.heads(hidden_states, cos, sin)
        weights = (q @ k.transpose(2, 3) * self.head_dim**-0.5).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(hidden_states.shape))


class PSdpaAttention(PAttention):
    def forward(self, hidden_states, cos, sin):
        q, k, v = self.heads(hidden_states, cos, sin)
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.o_proj(out.transpose(1, 2).reshape(hidden_states.shape))


ATTENTION_CLASSES = {"eager": PAttention, "sdpa": PSdpaAttention}


class PLayer(nn.Module):
    def __init__(self, backend):
        super().__init__()
        self.self_attn = ATTENTION_CLASSES[backend](16, 4, 2)
        self.mlp = PMLP(16, 24)
        self.input_layernorm = PRMSNorm(16)
        self.resid_attn_dropout = nn.Dropout(0.0)
        self.resid_mlp_dropout = nn.Dropout(0.0)
        self.post_attention_layernorm = PRMSNorm(16)

    def forward(self, hidden_states, cos, sin):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        attn_outputs = self.self_attn(hidden_states, cos, sin)
        hidden_states = residual + self.resid_attn_dropout(attn_outputs)
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + self.resid_mlp_dropout(hidden_states)
        return hidden_states


def cases(dtype):
    angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))
    angles = torch.cat((angles, angles), -1)[None]
    x = torch.randn(2, 5, 16, dtype=dtype)
    for backend in ATTENTION_CLASSES:
        layer = PLayer(backend).to(dtype).eval()
        yield layer(x, angles.cos().to(dtype), angles.sin().to(dtype))
