# With the host target single projections are ops too; the default leaves them.
# args: --target host
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
# expect: fused linear Mlp.forward
# expect: fused add_layer_norm Layer.forward
# expect: fused linear Layer.forward
import torch
import torch.nn.functional as F
from torch import nn

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):  # one op's call is an argument of the other's
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        x = x + self.proj(x)
        return x + self.norm(x)


def cases(dtype):
    yield Mlp().to(dtype)(torch.randn(3, 8, dtype=dtype))
    yield Layer().to(dtype)(torch.randn(3, 8, dtype=dtype))
