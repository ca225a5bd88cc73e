# Llama 4 and the first DeepSeek multiply complex numbers: matched exactly or reported, the
# numbers stay.
# expect: told rope Attn.forward
# dtypes: float32
import torch
import torch.nn.functional as F
from torch import nn

def apply_rotary_emb(xq, xk, freqs):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    xq_out = torch.view_as_real(xq_ * freqs[:, :, None, :]).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs[:, :, None, :]).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


class Attn(nn.Module):
    def forward(self, q, k, freqs):
        q, k = apply_rotary_emb(q, k, freqs)
        return q, k


def cases(dtype):
    q, k = torch.randn(2, 5, 4, 8, dtype=dtype), torch.randn(2, 5, 2, 8, dtype=dtype)
    yield Attn()(q, k, torch.polar(torch.ones(2, 5, 4), torch.randn(2, 5, 4)))
