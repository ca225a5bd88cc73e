# Temporaries (T5), functional activation (LFM2), gate second, the product turned round,
# methods, a packed projection.
# expect: fused act_mul Temporaries.forward
# expect: fused act_mul Functional.forward
# expect: fused act_mul GateSecond.forward
# expect: fused act_mul Method.forward
# expect: fused act_mul PackedChunk.forward
# expect: fused act_mul PackedSwapped.forward
# expect: fused linears Temporaries.forward
# expect: fused linears Functional.forward
# expect: fused linears GateSecond.forward
# expect: fused linears Method.forward
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)
        self.gate_up = nn.Linear(8, 32)
        self.down = nn.Linear(16, 8)
        self.act = nn.GELU(approximate="tanh")


class Temporaries(Base):
    def forward(self, x):
        hidden_gelu = self.act(self.gate(x))
        hidden_linear = self.up(x)
        x = hidden_gelu * hidden_linear
        x = self.down(x)
        return x


class Functional(Base):
    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class GateSecond(Base):
    def forward(self, x):
        return self.down(self.up(x) * self.act(self.gate(x)))


class Method(Base):
    def forward(self, x):
        gate = self.gate(x)
        return self.down(self.act(gate).mul(self.up(x)))


class PackedChunk(Base):
    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.act(gate) * up)


class PackedSwapped(Base):
    def forward(self, x):
        up_states = self.gate_up(x)
        up, gate = up_states.chunk(2, dim=-1)
        return self.down(up * self.act(gate))


def cases(dtype):
    for kind in (Temporaries, Functional, GateSecond, Method, PackedChunk, PackedSwapped):
        block = kind().to(dtype)
        yield block(torch.randn(2, 3, 8, dtype=dtype))
        yield block(torch.randn(8, dtype=dtype))
        yield block(torch.randn(0, 8, dtype=dtype))
