# One attention class per backend, where one inherits from the other and one is only there when a
# package is; the projections are in a method of the base.
# expect: fused linears EagerAttention.forward
# expect: fused linears FlashAttention.forward
# expect: fused linears SdpaAttention.forward
import torch
from torch import nn

try:
    from flash_attn_stand_in import flash_attn_func
except ImportError:
    flash_attn_func = None


def repeat_kv(hidden_states: torch.Tensor, n_rep: int) -> torch.Tensor:
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    if n_rep == 1:
        return hidden_states
    hidden_states = hidden_states[:, :, None, :, :].expand(
        batch, num_key_value_heads, n_rep, slen, head_dim
    )
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)


class EagerAttention(nn.Module):
    def __init__(self, hidden=16, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, hidden // heads
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.size()
        query_states = self.q_proj(hidden_states)
        key_states = self.k_proj(hidden_states)
        value_states = self.v_proj(hidden_states)
        query_states = query_states.view(bsz, q_len, self.heads, self.head_dim).transpose(1, 2)
        key_states = key_states.view(bsz, q_len, self.kv_heads, self.head_dim).transpose(1, 2)
        value_states = value_states.view(bsz, q_len, self.kv_heads, self.head_dim).transpose(1, 2)
        key_states = repeat_kv(key_states, self.heads // self.kv_heads)
        value_states = repeat_kv(value_states, self.heads // self.kv_heads)
        weights = torch.matmul(query_states, key_states.transpose(2, 3)) / self.head_dim**0.5
        weights = nn.functional.softmax(weights, dim=-1)
        out = torch.matmul(weights, value_states).transpose(1, 2).contiguous()
        return self.o_proj(out.view(bsz, q_len, -1)), weights


class FlashAttention(EagerAttention):
    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.size()
        query_states = self.q_proj(hidden_states).view(bsz, q_len, self.heads, self.head_dim)
        key_states = self.k_proj(hidden_states).view(bsz, q_len, self.kv_heads, self.head_dim)
        value_states = self.v_proj(hidden_states).view(bsz, q_len, self.kv_heads, self.head_dim)
        return self.o_proj(flash_attn_func(query_states, key_states, value_states)), None


class SdpaAttention(EagerAttention):
    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.size()
        query_states = self.q_proj(hidden_states).view(bsz, q_len, self.heads, self.head_dim)
        key_states = self.k_proj(hidden_states).view(bsz, q_len, self.kv_heads, self.head_dim)
        value_states = self.v_proj(hidden_states).view(bsz, q_len, self.kv_heads, self.head_dim)
        out = nn.functional.scaled_dot_product_attention(
            query_states.transpose(1, 2),
            repeat_kv(key_states.transpose(1, 2), self.heads // self.kv_heads),
            repeat_kv(value_states.transpose(1, 2), self.heads // self.kv_heads),
        )
        return self.o_proj(out.transpose(1, 2).reshape(bsz, q_len, -1)), None


CLASSES = {"eager": EagerAttention, "flash": FlashAttention, "sdpa": SdpaAttention}


def cases(dtype):
    x = torch.randn(2, 5, 16, dtype=dtype)
    for name in CLASSES:
        attention = CLASSES[name]().to(dtype)
        yield lambda attention=attention: attention(x)
