# One projection of the group is quantized, of another dtype, on the meta device, a buffer of
# bytes: each module decides itself.
# expect: fused linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        return q, k, v


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (linear.weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale, self.bias)


class Packed(nn.Linear):
    def __init__(self, linear):
        super().__init__(8, 8)
        self.weight = nn.Parameter(linear.weight.detach().float().view(torch.uint8), requires_grad=False)
        self.bias = linear.bias

    def forward(self, x):
        return F.linear(x, self.weight.view(torch.float32).to(x.dtype), self.bias)


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for wrap in (Int8Linear, Packed):
        attn = Attn().to(dtype)
        attn.k_proj = wrap(attn.k_proj)
        yield attn(x)
    attn = Attn().to(dtype)
    attn.v_proj.to(torch.float64)
    yield lambda: attn(x)
    yield lambda: Attn()(torch.randn(2, 8, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield Attn()(torch.randn(2, 3, 8))
    attn = Attn().to(dtype)
    attn.q_proj = nn.Linear(8, 8, device="meta", dtype=dtype)
    yield lambda: attn(x)
