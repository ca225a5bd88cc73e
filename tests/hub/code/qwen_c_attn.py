# The first Qwen: c_attn split by the hidden size, rotation of a part of the head by a list of
# (cos, sin), the gate last (w2), and a norm that goes by way of float().
# expect: fused rms_norm RMSNorm.forward
# expect: fused rope apply_rotary_pos_emb
# expect: fused linears QMLP.forward
# expect: fused act_mul QMLP.forward
# expect: fused add_rms_norm QBlock.forward
# expect: not-fused rope QAttention.forward
import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim).uniform_(0.5, 1.5))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


def _rotate_half(x):
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat((-second, first), dim=-1)


def apply_rotary_pos_emb(t, freqs):
    cos, sin = freqs
    rot_dim = cos.shape[-1]
    t_, t_pass_ = t[..., :rot_dim], t[..., rot_dim:]
    t_ = t_.float()
    t_pass_ = t_pass_.float()
    t_ = (t_ * cos) + (_rotate_half(t_) * sin)
    return torch.cat((t_, t_pass_), dim=-1).type_as(t)


class QMLP(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.w1 = nn.Linear(hidden, inner // 2, bias=False)
        self.w2 = nn.Linear(hidden, inner // 2, bias=False)
        self.c_proj = nn.Linear(inner // 2, hidden, bias=False)

    def forward(self, hidden_states):
        a1 = self.w1(hidden_states)
        a2 = self.w2(hidden_states)
        intermediate_parallel = a1 * F.silu(a2)
        output = self.c_proj(intermediate_parallel)
        return output


class QAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.split_size = hidden
        self.num_heads = heads
        self.head_dim = hidden // heads
        self.c_attn = nn.Linear(hidden, 3 * hidden)
        self.c_proj = nn.Linear(hidden, hidden, bias=False)

    def _split_heads(self, tensor, num_heads, attn_head_size):
        new_shape = tensor.size()[:-1] + (num_heads, attn_head_size)
        return tensor.view(new_shape)

    def _merge_heads(self, tensor, num_heads, attn_head_size):
        tensor = tensor.contiguous()
        return tensor.view(tensor.size()[:-2] + (num_heads * attn_head_size,))

    def forward(self, hidden_states, rotary_pos_emb_list=None, layer_past=None, head_mask=None):
        mixed_x_layer = self.c_attn(hidden_states)
        query, key, value = mixed_x_layer.split(self.split_size, dim=2)
        query = self._split_heads(query, self.num_heads, self.head_dim)
        key = self._split_heads(key, self.num_heads, self.head_dim)
        value = self._split_heads(value, self.num_heads, self.head_dim)
        if rotary_pos_emb_list is not None:
            cur_len = query.shape[1]
            if len(rotary_pos_emb_list) == 1:
                rotary_pos_emb = rotary_pos_emb_list[0]
                rotary_pos_emb = [i[:, -cur_len:, :, :] for i in rotary_pos_emb]
                rotary_pos_emb = (rotary_pos_emb,) * 2
                q_pos_emb, k_pos_emb = rotary_pos_emb
                query = apply_rotary_pos_emb(query, q_pos_emb)
                key = apply_rotary_pos_emb(key, k_pos_emb)
        if layer_past is not None:
            key = torch.cat((layer_past[0], key), dim=1)
            value = torch.cat((layer_past[1], value), dim=1)
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * self.head_dim**-0.5
        weights = scores.softmax(-1).type_as(value)
        if head_mask is not None:
            weights = weights * head_mask
        context = torch.einsum("bhqk,bkhd->bqhd", weights, value)
        return self.c_proj(self._merge_heads(context, self.num_heads, self.head_dim)), (key, value)


class QBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = RMSNorm(16)
        self.attn = QAttention(16, 2)
        self.ln_2 = RMSNorm(16)
        self.mlp = QMLP(16, 32)

    def forward(self, hidden_states, rotary_pos_emb_list=None, layer_past=None):
        layernorm_output = self.ln_1(hidden_states)
        attn_output, present = self.attn(layernorm_output, rotary_pos_emb_list, layer_past)
        residual = hidden_states
        layernorm_input = attn_output + residual
        layernorm_output = self.ln_2(layernorm_input)
        residual = layernorm_input
        mlp_output = self.mlp(layernorm_output)
        hidden_states = residual + mlp_output
        return hidden_states, present


def tables(length, dim):
    freqs = torch.outer(torch.arange(length).float(), 0.1 ** (torch.arange(0, dim, 2) / dim))
    emb = torch.cat((freqs, freqs), dim=-1)[None, :, None, :]
    return [[emb.cos(), emb.sin()]]


def cases(dtype):
    block = QBlock().to(dtype)
    x = torch.randn(2, 4, 16, dtype=dtype)
    out, past = block(x, tables(4, 4))
    yield out, past
    yield block(x[:, :1], tables(5, 4), past)
    yield block(x)
