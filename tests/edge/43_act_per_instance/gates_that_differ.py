# One class: bounds, slopes and activations per instance, by layer, changed later.
# expect: fused act_mul Mlp.forward "limit=self.limit"
# expect: fused act_mul Sloped.forward "slope=self.alpha"
# expect: either act_mul InPlace.forward
# expect: either linears
import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN


class Mlp(nn.Module):
    def __init__(self, limits, layer, act="silu"):
        super().__init__()
        self.gate_proj = nn.Linear(8, 17)
        self.up_proj = nn.Linear(8, 17)
        self.act_fn = ACT2FN[act]
        self.limit = (limits[layer] if limits else 0) or float("inf")

    def forward(self, x):
        gate = self.act_fn(self.gate_proj(x)).clamp(max=self.limit)
        up = self.up_proj(x).clamp(min=-self.limit, max=self.limit)
        return gate * up


class Sloped(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.gate_up_proj = nn.Linear(8, 34)
        self.alpha = alpha

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return up * (gate * torch.sigmoid(gate * self.alpha))


class InPlace(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.act_fn = act

    def forward(self, x):
        gate = self.gate_proj(x)
        return self.act_fn(gate) * self.up_proj(x), gate


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for layer in range(3):
        yield Mlp([0.25, 0.0, 16], layer).to(dtype)(x)
    for act in ("gelu", "gelu_new", "relu2", "quick_gelu", "linear"):
        block = Mlp([0.25], 0, act).to(dtype)
        yield block(x)
        block.limit = 0.5
        block.act_fn = nn.Tanh()
        yield block(x)
    for alpha in (1, 1.702, -1.0, 0.3):
        yield Sloped(alpha).to(dtype)(x)
    for act in (nn.ReLU(inplace=True), nn.ReLU(), nn.SiLU(inplace=True), nn.Dropout(0.5), F.silu):
        yield InPlace(act).to(dtype)(x)
