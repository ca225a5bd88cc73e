# GPT-J, CodeGen: interleaved rotation of the first dimensions, sin and cos repeated by duplicate,
# parallel attention and MLP; a mask and -1e9.
# expect: not-fused act_mul
# expect: fused rope apply_rotary_pos_emb
import torch
from torch import nn


def rotate_every_two(x: torch.Tensor) -> torch.Tensor:
    x1 = x[:, :, :, ::2]
    x2 = x[:, :, :, 1::2]
    x = torch.stack((-x2, x1), dim=-1)
    return x.flatten(-2)


def apply_rotary_pos_emb(tensor: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
    sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[:, :, None, :], 2, 3)
    return (tensor * cos) + (rotate_every_two(tensor) * sin)


class JAttention(nn.Module):
    def __init__(self, hidden, heads, rotary_dim):
        super().__init__()
        self.heads, self.head_dim, self.rotary_dim = heads, hidden // heads, rotary_dim
        self.qkv_proj = nn.Linear(hidden, hidden * 3, bias=False)
        self.out_proj = nn.Linear(hidden, hidden, bias=False)
        self.register_buffer("masked_bias", torch.tensor(-1e9), persistent=False)

    def forward(self, hidden_states, sin, cos):
        qkv = self.qkv_proj(hidden_states)
        mp_num = 2
        qkv_split = qkv.reshape(qkv.shape[:-1] + (mp_num, -1))
        local_dim = self.head_dim * self.heads // mp_num
        query, value, key = torch.split(qkv_split, local_dim, dim=-1)
        query = query.reshape(query.shape[:-2] + (self.heads, self.head_dim))
        key = key.reshape(key.shape[:-2] + (self.heads, self.head_dim))
        value = value.reshape(value.shape[:-2] + (self.heads, self.head_dim)).permute(0, 2, 1, 3)
        k_rot = key[:, :, :, : self.rotary_dim]
        k_pass = key[:, :, :, self.rotary_dim :]
        q_rot = query[:, :, :, : self.rotary_dim]
        q_pass = query[:, :, :, self.rotary_dim :]
        k_rot = apply_rotary_pos_emb(k_rot, sin, cos)
        q_rot = apply_rotary_pos_emb(q_rot, sin, cos)
        key = torch.cat([k_rot, k_pass], dim=-1).permute(0, 2, 1, 3)
        query = torch.cat([q_rot, q_pass], dim=-1).permute(0, 2, 1, 3)
        weights = torch.matmul(query, key.transpose(-1, -2)).float() / self.head_dim**0.5
        keep = torch.ones(weights.shape[-2:], dtype=torch.bool).tril()
        weights = torch.where(keep, weights, self.masked_bias.to(weights.dtype))
        weights = weights.softmax(-1).to(value.dtype)
        out = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous()
        return self.out_proj(out.view(out.size()[:-2] + (-1,)))


class JBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(16)
        self.attn = JAttention(16, 2, 4)
        self.fc_in, self.fc_out = nn.Linear(16, 32), nn.Linear(32, 16)
        self.act = nn.GELU(approximate="tanh")

    def forward(self, hidden_states, sin, cos):
        residual = hidden_states
        hidden_states = self.ln_1(hidden_states)
        attn_output = self.attn(hidden_states, sin, cos)
        feed_forward_hidden_states = self.fc_out(self.act(self.fc_in(hidden_states)))
        hidden_states = attn_output + feed_forward_hidden_states + residual
        return hidden_states


def cases(dtype):
    angles = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1]))[None]
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield JBlock().to(dtype)(x, angles.sin().to(dtype), angles.cos().to(dtype))
