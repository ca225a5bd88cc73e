# torch.compile takes the rewritten module in one graph, like the original one.
# expect: fused rms_norm Norm.forward
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
# expect: fused add_rms_norm Layer.forward
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
        self.attn = nn.Linear(8, 8)
        self.norm = Norm(8)
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.norm(x))


def cases(dtype):
    layer, x = Layer().to(dtype), torch.randn(2, 3, 8, dtype=dtype)
    yield layer(x)
    for backend in ("eager", "aot_eager"):
        torch.compiler.reset()
        with torch.no_grad():
            yield torch.compile(layer, backend=backend, fullgraph=True)(x)
    torch.compiler.reset()
    yield torch.export.export(layer, (x,)).module()(x)
