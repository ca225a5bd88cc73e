# Activations written out, gates by sigmoid, a gate for each head, dropout behind the product.
# expect: fused act_mul Swish.forward "function=.swish"
# expect: fused act_mul QuickGelu.forward "function=.sloped., slope=1.702"
# expect: fused act_mul FromInstance.forward "slope=self.slope"
# expect: fused act_mul OutputGate.forward "function=.sigmoid"
# expect: fused act_mul PerHead.forward
# expect: fused act_mul Functions.forward
# expect: fused act_mul DropoutAfter.forward
# expect: not-fused act_mul DropoutBetween.*
# expect: either act_mul Regrouped.forward
# expect: either act_mul TwoGates.forward
# expect: either act_mul Twice.forward
# expect: fused act_mul UpAgain.forward
# expect: not-fused act_mul GateAgain.*
# expect: no-text "gate \* \(?tfr.*swish"
# expect: either linears
import torch
import torch.nn.functional as F
from torch import nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16)
        self.up = nn.Linear(8, 16)
        self.slope = 1.5
        self.dropout = nn.Dropout(0.5)


class Swish(Base):
    def forward(self, x):
        gate = self.gate(x)
        return gate * torch.sigmoid(gate) * self.up(x)


class QuickGelu(Base):
    def forward(self, x):
        gate = self.gate(x)
        return self.up(x) * (torch.sigmoid(1.702 * gate) * gate)


class FromInstance(Base):
    def forward(self, x):
        gate = self.gate(x)
        return gate * F.sigmoid(gate * self.slope) * self.up(x)


class OutputGate(Base):
    def forward(self, x):
        return self.up(x) * self.gate(x).sigmoid()


class PerHead(Base):
    def forward(self, x):
        heads = self.up(x).view(*x.shape[:-1], 4, 4)
        return heads * self.gate(x)[..., :4].unsqueeze(-1).sigmoid()


class Functions(Base):
    def forward(self, x):
        return F.sigmoid(self.gate(x)) * self.up(x)


class DropoutAfter(Base):
    def forward(self, x):
        return self.dropout(torch.relu(self.gate(x)) * self.up(x))


class DropoutBetween(Base):
    def forward(self, x):
        return self.dropout(F.silu(self.gate(x))) * self.up(x)


class Regrouped(Base):
    def forward(self, x):
        gate = self.gate(x)
        return gate * (torch.sigmoid(gate) * self.up(x))


class TwoGates(Base):
    def forward(self, x):
        return self.gate(x) * torch.sigmoid(self.up(x)) * self.up(x)


class Twice(Base):
    def forward(self, x):
        return F.silu(self.gate(x)) * F.silu(self.up(x))


class UpAgain(Base):
    def forward(self, x):
        up = self.up(x)
        return F.silu(self.gate(x)) * up + up


class GateAgain(Base):
    def forward(self, x):
        gate = F.silu(self.gate(x))
        return gate * self.up(x) + gate


def cases(dtype):
    kinds = (Swish, QuickGelu, FromInstance, OutputGate, PerHead, Functions, Regrouped, TwoGates)
    for kind in (*kinds, DropoutAfter, DropoutBetween, Twice, UpAgain, GateAgain):
        for x in (torch.randn(2, 3, 8, dtype=dtype), torch.randn(0, 3, 8, dtype=dtype)):
            yield kind().to(dtype).train()(x)
            yield kind().to(dtype).eval()(x)
    block = FromInstance().to(dtype)
    for slope in (1, 0, -2.5, float("nan"), torch.tensor(0.7)):
        block.slope = slope
        yield block(torch.randn(2, 3, 8, dtype=dtype))
