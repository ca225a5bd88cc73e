# Every hook runs once, and the projections in the source's order. The activation may run after up_proj instead of before it
# (docs/NUMERICS.md).
# expect: either linears Mlp.forward
# expect: either act_mul Mlp.forward
import torch
import torch.nn.functional as F
from torch import nn

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def cases(dtype):
    mlp, log = Mlp().to(dtype), []
    for name, child in mlp.named_children():
        child.register_forward_hook(lambda m, a, o, name=name: log.append(name))
    yield mlp(torch.randn(2, 3, 8, dtype=dtype))
    yield [name for name in log if name != "act_fn"], sorted(log)
