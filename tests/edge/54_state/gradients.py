# One training step: outputs, gradients and updated weights.
# expect: fused linears Layer.forward x2
# expect: fused act_mul Layer.forward
# expect: fused rms_norm Norm.forward
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


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8, bias=False)
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)
        self.act_fn = nn.SiLU()
        self.norm = Norm(8)

    def forward(self, x):
        x = x + self.q_proj(x) * self.k_proj(x)
        h = self.norm(x)
        return x + self.down_proj(self.act_fn(self.gate_proj(h)) * self.up_proj(h))


def cases(dtype):
    layer = Layer().to(dtype)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(4, 8, dtype=dtype, requires_grad=True)
        loss = layer(x).float().pow(2).mean()
        loss.backward()
        yield loss, x.grad
        yield {name: p.grad for name, p in layer.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
    yield layer.state_dict()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield layer(torch.randn(4, 8, dtype=dtype))
    yield torch.utils.checkpoint.checkpoint(layer, torch.randn(4, 8, dtype=dtype), use_reentrant=False)
