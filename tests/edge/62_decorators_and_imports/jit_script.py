# TorchScript compiles the source of a function: a call of an op would not compile. Such
# functions stay.
# expect: not-fused * scripted
# expect: not-fused * later
# expect: not-fused * Scripted.extra
# expect: either act_mul Plain.forward
import torch
import torch.nn.functional as F
from torch import nn

@torch.jit.script
def scripted(gate: torch.Tensor, up: torch.Tensor):
    return F.silu(gate) * up


def later(gate: torch.Tensor, up: torch.Tensor):
    return F.silu(gate) * up


compiled = torch.jit.script(later)


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    @torch.jit.export
    def extra(self, x: torch.Tensor):
        return F.silu(self.a(x)) * self.b(x)

    def forward(self, x: torch.Tensor):
        return self.extra(x) + 1


class Plain(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up + scripted(gate, up) + compiled(gate, up)


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield Plain()(gate, up)
    module = torch.jit.script(Scripted()).to(dtype)
    yield module(gate), module.extra(gate)
