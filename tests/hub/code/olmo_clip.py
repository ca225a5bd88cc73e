# OLMo: a LayerNorm without weights in float32, clipped projections, one packed FF projection with
# the gate last.
# expect: fused act_mul SwiGLU.forward
# expect: refused rms_norm RMSLayerNorm.forward "from its middle is used elsewhere"
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn


class LayerNormBase(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.normalized_shape = (size,)
        self.eps = 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class AMDLayerNorm(LayerNormBase):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        og_dtype = x.dtype
        x = F.layer_norm(x.float(), self.normalized_shape, None, None, eps=self.eps)
        return x.to(og_dtype)


class RMSLayerNorm(LayerNormBase):
    def __init__(self, size):
        super().__init__(size)
        self.weight = nn.Parameter(torch.empty(size).uniform_(0.5, 1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(enabled=False, device_type=x.device.type):
            og_dtype = x.dtype
            x = x.to(torch.float32)
            variance = x.pow(2).mean(-1, keepdim=True)
            x = x * torch.rsqrt(variance + self.eps)
            x = x.to(og_dtype)
        return self.weight * x


class SwiGLU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, gate = x.chunk(2, dim=-1)
        return F.silu(gate) * x


class OLMoBlock(nn.Module):
    def __init__(self, norm, clip_qkv=None):
        super().__init__()
        self.clip_qkv = clip_qkv
        self.fused_dims = (16, 16, 16)
        self.att_proj = nn.Linear(16, sum(self.fused_dims), bias=False)
        self.ff_proj = nn.Linear(16, 48, bias=False)
        self.ff_out = nn.Linear(24, 16, bias=False)
        self.attn_out = nn.Linear(16, 16, bias=False)
        self.act = SwiGLU()
        self.attn_norm = norm(16)
        self.ff_norm = norm(16)
        self.dropout = nn.Dropout(0.0)

    def attention(self, q, k, v):
        b, s, _ = q.shape
        q, k, v = (t.view(b, s, 2, 8).transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, 16)

    def forward(self, x):
        qkv = self.att_proj(self.attn_norm(x))
        if self.clip_qkv is not None:
            qkv.clamp_(min=-self.clip_qkv, max=self.clip_qkv)
        q, k, v = qkv.split(self.fused_dims, dim=-1)
        att = self.attn_out(self.attention(q, k, v))
        x = x + self.dropout(att)
        og_x = x
        x = self.ff_norm(x)
        x = self.ff_proj(x)
        x = self.act(x)
        x = self.ff_out(x)
        x = self.dropout(x)
        x = og_x + x
        return x


def cases(dtype):
    x = torch.randn(2, 5, 16, dtype=dtype)
    for norm in (AMDLayerNorm, RMSLayerNorm):
        for clip in (None, 0.5):
            yield OLMoBlock(norm, clip).to(dtype).eval()(x)
