# A hook on the activation writes to the input that up_proj reads next.
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
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


def cases(dtype):
    mlp, x = Mlp().to(dtype), torch.randn(2, 3, 8, dtype=dtype)

    def write(module, args, out):
        x.mul_(2)

    mlp.act_fn.register_forward_hook(write)
    yield mlp(x)
