# Classes whose attributes are made in another file: a norm that is renamed, an MLP that has forward
# alone, an attention that splits heads by a method of its base.
# expect: fused act_mul MyMLP.forward
# expect: fused linears MyMLP.forward
# expect: fused linears MyAttention.forward
# expect: fused add_rms_norm MyLayer.forward
# expect: not-fused rms_norm
import torch
from torch import nn

from . import base
from .base import BaseAttention, PackNorm


class MyNorm(PackNorm):
    pass


class MyMLP(base.BaseMLP):
    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class MyAttention(BaseAttention):
    def forward(self, x):
        q = self._split(self.q_proj(x))
        k = self._split(self.k_proj(x))
        v = self._split(self.v_proj(x))
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape))


class MyLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp = MyAttention(16, 2), MyMLP(16, 24)
        self.norm_1, self.norm_2 = MyNorm(16), MyNorm(16)

    def forward(self, x):
        residual = x
        x = self.attn(self.norm_1(x))
        x = residual + x
        residual = x
        x = self.norm_2(x)
        return residual + self.mlp(x)


def cases(dtype):
    yield MyLayer().to(dtype)(torch.randn(2, 5, 16, dtype=dtype))
