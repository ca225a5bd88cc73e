# Hooks on a norm that an add-norm takes over and on an activation inside a gated product;
# values and calls are kept.
# expect: fused rms_norm Norm.forward
# expect: fused add_rms_norm Layer.forward
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
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
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(8)
        self.attn = nn.Linear(8, 8)
        self.mlp = Mlp()

    def forward(self, x):
        residual = x
        x = self.attn(x)
        x = residual + x
        residual = x
        x = self.norm(x)
        x = self.mlp(x)
        return residual + x


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)

    layer = Layer().to(dtype)
    layer.norm.register_forward_hook(lambda m, args, out: out * 2)
    yield layer(x)

    layer, seen = Layer().to(dtype), []
    layer.norm.register_forward_pre_hook(lambda m, args: seen.append(args[0].clone()))
    layer.mlp.act_fn.register_forward_hook(lambda m, args, out: seen.extend([args[0].clone(), out.clone()]))
    yield layer(x)
    yield seen

    layer = Layer().to(dtype)
    layer.mlp.act_fn.register_forward_hook(lambda m, args, out: out + 1)
    yield layer(x)

    layer = Layer().to(dtype)
    layer.norm.forward = lambda t: t - 1
    layer.mlp.act_fn.forward = lambda t: t
    yield layer(x)

    layer = Layer().to(dtype)
    layer.norm = nn.Identity()
    layer.mlp.act_fn = nn.Tanh()
    yield layer(x)

    layer = Layer().to(dtype)  # a pre-hook that writes: the residual is the same tensor
    layer.norm.register_forward_pre_hook(lambda m, args: (args[0].mul_(2),))
    with torch.no_grad():
        yield layer(x)
