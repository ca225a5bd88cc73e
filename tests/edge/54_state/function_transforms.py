# vmap, grad, jvp and forward-mode pass through the ops as through the code they replace.
# expect: fused rms_norm Norm.forward
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
# dtypes: float32
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x.to(dtype)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)

    def forward(self, x):
        x = self.norm(x)
        return F.silu(self.gate_proj(x)) * self.up_proj(x)


def cases(dtype):
    mlp, x = Mlp().to(dtype), torch.randn(4, 3, 8, dtype=dtype)
    yield torch.vmap(mlp)(x)
    yield torch.vmap(mlp, in_dims=1)(x)
    yield torch.func.grad(lambda t: mlp(t).sum())(x)
    yield torch.func.jvp(mlp, (x,), (torch.ones_like(x),))
    yield torch.func.jacrev(mlp)(x[0, 0])
    yield torch.func.vmap(torch.func.grad(lambda t: mlp(t).sum()))(x)
    with torch.device("meta"):
        yield list(Mlp()(torch.empty(2, 8)).shape)
