# MPT: packed Wqkv by chunk, clipped, layer norms without bias, ALiBi, GELU by name.
# expect: not-fused act_mul
# expect: not-fused linears
# expect: not-fused rope
# expect: not-fused add_layer_norm MPTBlock.forward
import math

import torch
import torch.nn.functional as F
from torch import nn


class LPLayerNorm(nn.LayerNorm):
    """In the lower precision of an autocast; elsewhere a plain one."""

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class MultiheadAttention(nn.Module):
    def __init__(self, d_model, n_heads, clip_qkv=None, qk_ln=False):
        super().__init__()
        self.clip_qkv = clip_qkv
        self.qk_ln = qk_ln
        self.n_heads = n_heads
        self.softmax_scale = 1 / math.sqrt(d_model / n_heads)
        self.Wqkv = nn.Linear(d_model, d_model * 3, bias=False)
        if self.qk_ln:
            self.q_ln = LPLayerNorm(d_model)
            self.k_ln = LPLayerNorm(d_model)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, past_key_value=None, attn_bias=None):
        qkv = self.Wqkv(x)
        if self.clip_qkv:
            qkv.clamp_(min=-self.clip_qkv, max=self.clip_qkv)
        query, key, value = qkv.chunk(3, dim=2)
        if self.qk_ln:
            dtype = query.dtype
            query = self.q_ln(query).to(dtype)
            key = self.k_ln(key).to(dtype)
        b, s, d = query.shape
        q, k, v = (t.view(b, -1, self.n_heads, d // self.n_heads).transpose(1, 2) for t in (query, key, value))
        scores = q @ k.transpose(-2, -1) * self.softmax_scale
        if attn_bias is not None:
            scores = scores + attn_bias[..., -s:, :]
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, d)
        return self.out_proj(out), (key, value)


class MPTMLP(nn.Module):
    def __init__(self, d_model, expansion_ratio):
        super().__init__()
        self.up_proj = nn.Linear(d_model, expansion_ratio * d_model, bias=False)
        self.act = nn.GELU(approximate="none")
        self.down_proj = nn.Linear(expansion_ratio * d_model, d_model, bias=False)
        self.down_proj._is_residual = True

    def forward(self, x):
        return self.down_proj(self.act(self.up_proj(x)))


class MPTBlock(nn.Module):
    def __init__(self, clip_qkv=None, qk_ln=False):
        super().__init__()
        self.norm_1 = LPLayerNorm(16)
        self.attn = MultiheadAttention(16, 2, clip_qkv, qk_ln)
        self.norm_2 = LPLayerNorm(16)
        self.ffn = MPTMLP(16, 2)
        self.resid_attn_dropout = nn.Dropout(0.0)
        self.resid_ffn_dropout = nn.Dropout(0.0)

    def forward(self, x, past_key_value=None, attn_bias=None):
        a = self.norm_1(x)
        b, past_key_value = self.attn(a, past_key_value=past_key_value, attn_bias=attn_bias)
        x = x + self.resid_attn_dropout(b)
        m = self.norm_2(x)
        n = self.ffn(m)
        x = x + self.resid_ffn_dropout(n)
        return x, past_key_value


def cases(dtype):
    x = torch.randn(2, 5, 16, dtype=dtype)
    bias = torch.arange(1 - 5, 1)[None, None, None, :] * torch.tensor([0.5, 0.25])[None, :, None, None]
    for clip, ln in ((None, False), (0.5, False), (None, True)):
        yield MPTBlock(clip, ln).to(dtype)(x, attn_bias=bias.to(dtype))
