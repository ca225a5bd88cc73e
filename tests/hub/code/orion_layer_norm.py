# Orion, XVERSE: a LLaMA with nn.LayerNorm; _prepare_decoder_attention_mask and tuples as cache.
# expect: fused rope apply_rotary_pos_emb
# expect: fused linears OAttention.forward
# expect: fused add_layer_norm OLayer.forward
# expect: refused linears OMLP.forward "not known to have no effects"
# expect: not-fused rope OAttention.forward
import torch
from torch import nn


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids):
    # The first two dimensions of cos and sin are always 1, so we can `squeeze` them.
    cos = cos.squeeze(1).squeeze(0)  # [seq_len, dim]
    sin = sin.squeeze(1).squeeze(0)  # [seq_len, dim]
    cos = cos[position_ids].unsqueeze(1)  # [bs, 1, seq_len, dim]
    sin = sin[position_ids].unsqueeze(1)  # [bs, 1, seq_len, dim]
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class ORotary(torch.nn.Module):
    def __init__(self, dim, max_position_embeddings=16, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self._set_cos_sin_cache(max_position_embeddings)

    def _set_cos_sin_cache(self, seq_len):
        self.max_seq_len_cached = seq_len
        t = torch.arange(seq_len, dtype=self.inv_freq.dtype)
        freqs = torch.einsum("i,j->ij", t, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("cos_cached", emb.cos()[None, None, :, :], persistent=False)
        self.register_buffer("sin_cached", emb.sin()[None, None, :, :], persistent=False)

    def forward(self, x, seq_len=None):
        if seq_len > self.max_seq_len_cached:
            self._set_cos_sin_cache(seq_len)
        return (
            self.cos_cached[:, :, :seq_len, ...].to(dtype=x.dtype),
            self.sin_cached[:, :, :seq_len, ...].to(dtype=x.dtype),
        )


class OAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.num_heads, self.head_dim, self.hidden_size = heads, hidden // heads, hidden
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.rotary_emb = ORotary(self.head_dim)

    def _shape(self, tensor: torch.Tensor, seq_len: int, bsz: int):
        return tensor.view(bsz, seq_len, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_value=None):
        bsz, q_len, _ = hidden_states.size()
        query_states = self._shape(self.q_proj(hidden_states), q_len, bsz)
        key_states = self._shape(self.k_proj(hidden_states), q_len, bsz)
        value_states = self._shape(self.v_proj(hidden_states), q_len, bsz)
        kv_seq_len = key_states.shape[-2]
        if past_key_value is not None:
            kv_seq_len += past_key_value[0].shape[-2]
        cos, sin = self.rotary_emb(value_states, seq_len=kv_seq_len)
        query_states, key_states = apply_rotary_pos_emb(
            query_states, key_states, cos, sin, position_ids
        )
        if past_key_value is not None:
            # reuse k, v, self_attention
            key_states = torch.cat([past_key_value[0], key_states], dim=2)
            value_states = torch.cat([past_key_value[1], value_states], dim=2)
        weights = query_states @ key_states.transpose(2, 3) * self.head_dim**-0.5
        if attention_mask is not None:
            weights = weights + attention_mask
            weights = torch.max(weights, torch.tensor(torch.finfo(weights.dtype).min))
        weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query_states.dtype)
        out = (weights @ value_states).transpose(1, 2).reshape(bsz, q_len, self.hidden_size)
        return self.o_proj(out), (key_states, value_states)


class OMLP(nn.Module):
    def __init__(self, hidden_size, intermediate_size, hidden_act):
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.act_fn = {"silu": nn.SiLU(), "gelu": nn.GELU()}[hidden_act]

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class OLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = OAttention(16, 2)
        self.mlp = OMLP(16, 24, "silu")
        self.input_layernorm = nn.LayerNorm(16, eps=1e-5)
        self.post_attention_layernorm = nn.LayerNorm(16, eps=1e-5)

    def forward(self, hidden_states, attention_mask, position_ids, past_key_value=None):
        residual = hidden_states
        hidden_states = self.input_layernorm(hidden_states)
        hidden_states, present = self.self_attn(
            hidden_states, attention_mask, position_ids, past_key_value
        )
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = self.mlp(hidden_states)
        hidden_states = residual + hidden_states
        return hidden_states, present


class OModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([OLayer() for _ in range(2)])

    def _prepare_decoder_attention_mask(self, shape, embeds, past):
        if shape[-1] == 1:
            return None
        mask = torch.full((shape[-1], shape[-1] + past), torch.finfo(embeds.dtype).min)
        return mask.triu(past + 1)[None, None].to(embeds.dtype)

    def forward(self, inputs_embeds, past_key_values=None):
        past = past_key_values[0][0].shape[2] if past_key_values is not None else 0
        length = inputs_embeds.shape[1]
        position_ids = torch.arange(past, length + past).unsqueeze(0).view(-1, length)
        mask = self._prepare_decoder_attention_mask(inputs_embeds.shape[:2], inputs_embeds, past)
        next_cache = ()
        for idx, layer in enumerate(self.layers):
            past_key_value = past_key_values[idx] if past_key_values is not None else None
            inputs_embeds, present = layer(inputs_embeds, mask, position_ids, past_key_value)
            next_cache += (present,)
        return inputs_embeds, next_cache


def cases(dtype):
    model = OModel().to(dtype)
    x = torch.randn(2, 5, 16, dtype=dtype)
    out, past = model(x)
    yield out, past
    yield model(x[:, :1], past)
