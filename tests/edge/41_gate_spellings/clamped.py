# Clamped gates: before and after the activation, packed or not, with other bounds than the rule's.
# expect: fused act_mul Before.forward "clamp=.before., limit=self.limit"
# expect: fused act_mul After.forward "clamp=.after., limit=self.limit"
# expect: fused act_mul Packed.forward "packed=.gate_up., clamp=.before"
# expect: fused act_mul Method.gated "clamp=.before"
# expect: fused act_mul Sloped.forward "function=.sloped., clamp=.before"
# expect: fused act_mul Near.two_limits "up.clamp\(min=-self.alpha"
# expect: fused act_mul Near.from_below "gate.clamp\(min=self.limit\), up"
# expect: fused act_mul Near.up_from_above "up.clamp\(max=self.limit\)\)"
# expect: fused act_mul Near.tensor_bound "up.clamp\(min=-bound"
# expect: fused act_mul Near.up_alone "gate, up.clamp"
# expect: either linears
# expect: either act_mul Near.slope_of_up
# expect: either act_mul Near.minus_one
# expect: either act_mul Near.clamped_again
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self, limit=0.5, alpha=1.702):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)
        self.gate_up = nn.Linear(8, 30)
        self.act = nn.SiLU()
        self.limit = limit
        self.alpha = alpha


class Before(Base):
    def forward(self, x):
        gate = self.gate(x).clamp(min=None, max=self.limit)
        up = torch.clamp(self.up(x), -self.limit, self.limit)
        return self.act(gate) * up


class After(Base):
    def forward(self, x):
        gate = self.act(self.gate(x)).clamp(max=self.limit)
        up = self.up(x).clip(min=-self.limit, max=self.limit)
        return gate * up


class Packed(Base):
    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return F.silu(gate.clamp(max=self.limit)) * up.clamp(min=-self.limit, max=self.limit)


class Method(Base):
    def forward(self, x):
        return self.gated(self.gate_up(x)) + 1

    def gated(self, gate_up):
        gate, up = gate_up.chunk(2, dim=-1)
        gate = gate.clamp(max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        return self.act(gate) * up


class Sloped(Base):
    def forward(self, x):
        gate = self.gate(x).clamp(max=self.limit)
        up = self.up(x).clamp(min=-self.limit, max=self.limit)
        glu = gate * torch.sigmoid(gate * self.alpha)
        return (up + 1) * glu


class Near(Base):
    def two_limits(self, gate, up):
        return self.act(gate.clamp(max=self.limit)) * up.clamp(min=-self.alpha, max=self.alpha)

    def from_below(self, gate, up):
        return self.act(gate.clamp(min=self.limit)) * up.clamp(min=-self.limit, max=self.limit)

    def up_from_above(self, gate, up):
        return self.act(gate.clamp(max=self.limit)) * up.clamp(max=self.limit)

    def tensor_bound(self, gate, up):
        bound = gate.abs().mean()
        return self.act(gate.clamp(max=bound)) * up.clamp(min=-bound, max=bound)

    def up_alone(self, gate, up):
        return self.act(gate) * up.clamp(min=-self.limit, max=self.limit)

    def slope_of_up(self, gate, up):
        gate = gate.clamp(max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        return (up + 1) * (gate * torch.sigmoid(up * self.alpha))

    def minus_one(self, gate, up):
        gate = gate.clamp(max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        return (up - 1) * (gate * torch.sigmoid(gate * self.alpha))

    def clamped_again(self, gate, up):
        gate = gate.clamp(max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        return (self.act(gate) * up).clamp(max=self.limit) + up

    def forward(self, gate, up):
        for f in (self.two_limits, self.from_below, self.up_from_above, self.tensor_bound):
            yield f(gate, up)
        for f in (self.up_alone, self.slope_of_up, self.minus_one, self.clamped_again):
            yield f(gate, up)


def cases(dtype):
    x = torch.randn(3, 5, 8, dtype=dtype)
    for kind in (Before, After, Packed, Method, Sloped):
        for limit in (0.5, 0.3, 7, float("inf")):
            yield kind(limit).to(dtype)(x)
        block = kind().to(dtype)
        for limit in (0, -0.25, float("nan"), None, "7"):  # what is no limit: as it was, errors too
            block.limit = limit
            yield lambda block=block: block(x)
            block = kind().to(dtype)
    gate, up = torch.randn(4, 9, dtype=dtype), torch.randn(4, 9, dtype=dtype)
    yield list(Near().to(dtype)(gate, up))
    yield list(Near(0.1, 0.2).to(dtype)(gate, up.flip(0)))
