# state_dict keys and shapes, saving and loading in every way, after the first forward too: no
# stale copy of a weight.
# expect: fused linears Layer.forward x2
# expect: fused act_mul Layer.forward
# expect: fused rms_norm Norm.forward
# expect: fused add_rms_norm Layer.forward
import torch
import torch.nn.functional as F
from torch import nn
import copy
import io
import pickle

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
    x = torch.randn(2, 3, 8, dtype=dtype)
    layer, other = Layer().to(dtype), Layer().to(dtype)
    yield layer(x)
    yield [(name, tuple(p.shape), str(p.dtype)) for name, p in layer.state_dict().items()]
    yield [name for name, _ in layer.named_modules()], [name for name, _ in layer.named_buffers()]

    file = io.BytesIO()
    torch.save(other.state_dict(), file)
    file.seek(0)
    layer.load_state_dict(torch.load(file))
    yield layer(x)
    layer.load_state_dict({k: v * 2 for k, v in other.state_dict().items()}, assign=True)
    yield layer(x)
    layer.k_proj.weight.data = other.q_proj.weight.data * 3
    yield layer(x)
    layer.gate_proj.weight = layer.up_proj.weight  # tied
    yield layer(x)
    layer.up_proj.weight.data.mul_(0.5)
    yield layer(x)
    layer.gate_proj.weight = nn.Parameter(layer.up_proj.weight.detach() * 2)
    layer.q_proj = other.q_proj
    yield layer(x)
    with torch.no_grad():
        layer.norm.weight.add_(1)
        layer.q_proj.bias.zero_()
    yield layer(x)
    yield copy.deepcopy(layer)(x)
    yield pickle.loads(pickle.dumps(layer.state_dict()))["norm.weight"]
    yield torch.func.functional_call(layer, {k: v + 1 for k, v in layer.state_dict().items()}, (x,))
    yield layer.to(torch.float64)(x.double())
    yield layer.to(dtype)(x)
    with torch.inference_mode():
        yield [t.clone() for t in (layer(x),)]
    layer.eval().requires_grad_(False)
    yield layer(x)
