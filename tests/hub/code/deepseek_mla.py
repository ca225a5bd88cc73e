# DeepSeek-V2: latent attention; the rotated part is reordered from interleaved to halves before
# it is rotated, of the keys for all heads at once; q_proj or a low-rank pair, by configuration.
# expect: fused rms_norm DSRMSNorm.forward
# expect: fused rope apply_rotary_pos_emb
# expect: fused linears LatentAttention.forward
# expect: not-fused rope LatentAttention.forward
import torch
from torch import nn


class DSRMSNorm(nn.Module):
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


def apply_rotary_pos_emb(q, k, cos, sin, position_ids, unsqueeze_dim=1):
    cos = cos[position_ids].unsqueeze(unsqueeze_dim)
    sin = sin[position_ids].unsqueeze(unsqueeze_dim)

    b, h, s, d = q.shape
    q = q.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)

    b, h, s, d = k.shape
    k = k.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)

    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class LatentAttention(nn.Module):
    def __init__(self, hidden, heads, q_lora_rank):
        super().__init__()
        self.num_heads = heads
        self.nope, self.rope, self.v_dim, self.rank = 6, 4, 8, 10
        self.q_lora_rank = q_lora_rank
        width = heads * (self.nope + self.rope)
        if self.q_lora_rank is None:
            self.q_proj = nn.Linear(hidden, width, bias=False)
        else:
            self.q_a_proj = nn.Linear(hidden, q_lora_rank, bias=False)
            self.q_a_layernorm = DSRMSNorm(q_lora_rank)
            self.q_b_proj = nn.Linear(q_lora_rank, width, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(hidden, self.rank + self.rope, bias=False)
        self.kv_a_layernorm = DSRMSNorm(self.rank)
        self.kv_b_proj = nn.Linear(self.rank, heads * (self.nope + self.v_dim), bias=False)
        self.o_proj = nn.Linear(heads * self.v_dim, hidden, bias=False)

    def forward(self, hidden_states, cos, sin, position_ids):
        bsz, q_len, _ = hidden_states.size()
        if self.q_lora_rank is None:
            q = self.q_proj(hidden_states)
        else:
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(hidden_states)))
        q = q.view(bsz, q_len, self.num_heads, self.nope + self.rope).transpose(1, 2)
        q_nope, q_pe = torch.split(q, [self.nope, self.rope], dim=-1)

        compressed_kv = self.kv_a_proj_with_mqa(hidden_states)
        compressed_kv, k_pe = torch.split(compressed_kv, [self.rank, self.rope], dim=-1)
        k_pe = k_pe.view(bsz, q_len, 1, self.rope).transpose(1, 2)
        kv = self.kv_b_proj(self.kv_a_layernorm(compressed_kv))
        kv = kv.view(bsz, q_len, self.num_heads, self.nope + self.v_dim).transpose(1, 2)
        k_nope, value_states = torch.split(kv, [self.nope, self.v_dim], dim=-1)
        q_pe, k_pe = apply_rotary_pos_emb(q_pe, k_pe, cos, sin, position_ids)

        query_states = k_pe.new_empty(bsz, self.num_heads, q_len, self.nope + self.rope)
        query_states[:, :, :, : self.nope] = q_nope
        query_states[:, :, :, self.nope :] = q_pe
        key_states = k_pe.new_empty(bsz, self.num_heads, q_len, self.nope + self.rope)
        key_states[:, :, :, : self.nope] = k_nope
        key_states[:, :, :, self.nope :] = k_pe
        weights = (query_states @ key_states.transpose(2, 3) * 0.3).softmax(-1)
        out = (weights @ value_states).transpose(1, 2).contiguous()
        return self.o_proj(out.reshape(bsz, q_len, self.num_heads * self.v_dim))


def cases(dtype):
    angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.1]))
    angles = torch.cat((angles, angles), -1)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    x = torch.randn(2, 5, 16, dtype=dtype)
    for rank in (None, 12):
        yield LatentAttention(16, 2, rank).to(dtype)(x, cos, sin, torch.arange(5)[None])
