# Halves by chunk, tables cut at the call, float32 around them; an MLP with a gate or without.
# expect: fused rms_norm OpenELMRMSNorm.forward
# expect: fused rope _apply_rotary_pos_emb "layout=.half_chunks., inner=_rotate_half"
# expect: fused add_rms_norm OpenELMDecoderLayer.forward
# expect: fused act_mul OpenELMFeedForwardNetwork.forward
from typing import List, Optional, Tuple, Union
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class OpenELMRMSNorm(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(num_features))
        self.num_features = num_features

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        output = self._norm(x.float()).type_as(x)
        return output * self.weight

    def extra_repr(self) -> str:
        return super().extra_repr() + f"num_features={self.num_features}, eps={self.eps}"


def _rotate_half(x: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def _apply_rotary_pos_emb(x: Tensor, pos_sin: Tensor, pos_cos: Tensor) -> Tensor:
    return (x * pos_cos) + (_rotate_half(x) * pos_sin)


class OpenELMRotaryEmbedding(torch.nn.Module):
    def __init__(self, model_dim: int, max_seq_length: int, freq_constant: int = 10000) -> None:
        inv_freq = 1.0 / (freq_constant ** (torch.arange(0, model_dim, 2, dtype=torch.float32) / model_dim))
        super().__init__()
        self.model_dim = model_dim
        self.freq_constant = freq_constant
        self.max_seq_length = max_seq_length
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self._cached_cos = None
        self._cached_sin = None
        self._cached_seq_length = max_seq_length
        self._compute_sin_cos_embeddings(max_seq_length)

    def _compute_sin_cos_embeddings(self, key_len, key_device=torch.device("cpu"), key_dtype=torch.float32):
        if (
            key_len > self._cached_seq_length
            or self._cached_cos is None
            or (self._cached_cos is not None and self._cached_cos.dtype != key_dtype)
        ):
            self._cached_seq_length = max(key_len, self._cached_seq_length)
            pos_index = torch.arange(self._cached_seq_length, dtype=torch.float32, device=self.inv_freq.device)
            pos_index_theta = torch.einsum("i,j->ij", pos_index, self.inv_freq.float())
            emb = torch.cat((pos_index_theta, pos_index_theta), dim=-1)
            cos_emb = emb.cos().to(dtype=key_dtype, device=key_device)
            sin_emb = emb.sin().to(dtype=key_dtype, device=key_device)
            self._cached_cos = cos_emb[None, None, :, :]
            self._cached_sin = sin_emb[None, None, :, :]

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        dim = key.shape[-1]
        key_len = key.shape[2]
        query_len = query.shape[2]

        assert dim == self.model_dim
        assert key.device == query.device
        assert key.dtype == query.dtype

        # In the context of self-attention, the lengths of keys and queries are equal.
        assert (key_len >= query_len), "Number of keys has to be greater than or equal to number of queries."

        query_float = query.float()
        key_float = key.float()

        self._compute_sin_cos_embeddings(key_len, key_device=key_float.device, key_dtype=key_float.dtype)
        query_float = _apply_rotary_pos_emb(
            x=query_float,
            pos_sin=self._cached_sin[..., key_len - query_len : key_len, :],
            pos_cos=self._cached_cos[..., key_len - query_len : key_len, :],
        )
        key_float = _apply_rotary_pos_emb(
            x=key_float,
            pos_sin=self._cached_sin[..., :key_len, :],
            pos_cos=self._cached_cos[..., :key_len, :],
        )

        return query_float.type_as(query), key_float.type_as(key)


class OpenELMMultiHeadCausalAttention(nn.Module):
    def __init__(self, q_heads=4, k_heads=2, v_heads=2, head_dim=8, dim=32) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(in_features=dim, out_features=(q_heads + k_heads + v_heads) * head_dim, bias=False)
        self.pos_embedding = OpenELMRotaryEmbedding(model_dim=head_dim, max_seq_length=16)
        self.q_norm = OpenELMRMSNorm(num_features=head_dim)
        self.k_norm = OpenELMRMSNorm(num_features=head_dim)
        self.out_proj = nn.Linear(in_features=q_heads * head_dim, out_features=dim, bias=False)
        self.head_dim = head_dim
        self.num_q_heads, self.num_k_heads, self.num_v_heads = q_heads, k_heads, v_heads
        self.transformer_dim = dim
        self.num_groups = self.num_q_heads // self.num_k_heads

    def forward(self, hidden_states: torch.Tensor):
        # scaled_dot_product_attention does not return attention weights, set output_attentions to False
        output_attentions = False
        batch_size, seq_length, d_model = hidden_states.size()
        # [B, S, d] --> [B, S, (q_h + k_h + v_h) * h]
        qkv = self.qkv_proj(hidden_states)
        qkv = qkv.reshape(batch_size, seq_length, self.num_q_heads + self.num_k_heads + self.num_v_heads, self.head_dim)
        qkv = qkv.transpose(1, 2)
        queries, keys, values = qkv.split([self.num_q_heads, self.num_k_heads, self.num_v_heads], dim=1)

        if self.q_norm is not None:
            queries = self.q_norm(queries)

        if self.k_norm is not None:
            keys = self.k_norm(keys)

        queries, keys = self.pos_embedding(queries, keys)

        if self.num_groups != 1:
            keys = keys.repeat_interleave(self.num_groups, dim=1)
            values = values.repeat_interleave(self.num_groups, dim=1)

        attn_output = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        attn_output = attn_output.transpose(1, 2).contiguous()
        attn_output = attn_output.reshape(batch_size, seq_length, self.num_q_heads * self.head_dim)
        return self.out_proj(attn_output)


class OpenELMFeedForwardNetwork(nn.Module):
    def __init__(self, glu=True, dim=32, inter=40):
        super().__init__()
        self.ffn_with_glu = glu
        if glu:
            self.proj_1 = nn.Linear(in_features=dim, out_features=2 * inter, bias=False)
            self.proj_2 = nn.Linear(in_features=inter, out_features=dim, bias=False)
        else:
            self.proj_1 = nn.Linear(in_features=dim, out_features=inter, bias=False)
            self.proj_2 = nn.Linear(in_features=inter, out_features=dim, bias=False)
        self.act = nn.SiLU()

    def extra_repr(self) -> str:
        return super().extra_repr() + f"(ffn_with_glu) : {self.ffn_with_glu}"

    def forward(self, x: Tensor) -> Tensor:
        if self.ffn_with_glu:
            y_12 = self.proj_1(x)
            y_1, y_2 = y_12.chunk(2, dim=-1)
            y = self.act(y_1) * y_2
            return self.proj_2(y)
        else:
            return self.proj_2(self.act(self.proj_1(x)))


class OpenELMDecoderLayer(nn.Module):
    def __init__(self, glu) -> None:
        super().__init__()
        self.attn = OpenELMMultiHeadCausalAttention()
        self.ffn = OpenELMFeedForwardNetwork(glu)
        self.ffn_norm = OpenELMRMSNorm(num_features=32)
        self.attn_norm = OpenELMRMSNorm(num_features=32)

    def forward(self, hidden_states: torch.Tensor) -> Tuple[torch.FloatTensor]:
        residual = hidden_states
        hidden_states = self.attn_norm(hidden_states)

        # Self Attention
        hidden_states = self.attn(hidden_states=hidden_states)
        hidden_states = residual + hidden_states

        # Fully Connected
        residual = hidden_states
        hidden_states = self.ffn_norm(hidden_states)
        hidden_states = self.ffn(hidden_states)
        hidden_states = residual + hidden_states
        return (hidden_states,)

def make():
    for glu in (True, False):
        yield OpenELMDecoderLayer(glu), torch.randn(2, 6, 32)


def cases(dtype):
    for model, x in make():
        model = model.to(dtype)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn(p.shape) * 0.3)
        yield sorted(model.state_dict())
        yield model(x.to(dtype))
        with torch.no_grad():
            yield model(x.to(dtype))
