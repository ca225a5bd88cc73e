# The condition of k and v is bound after q is computed; in `Late` it is made of a value that is
# computed after q, in `Changed` of a list that is emptied between, in `Called` by a call.
# expect: fused linears Cross.forward x2
# expect: text "None if states is not None else self.k, None if states is not None else self.v"
# expect: fused linears Late.forward "k, v = tfr.linears"
# expect: fused linears Changed.forward "k, v = tfr.linears"
# expect: told linears Changed.forward
# expect: fused linears Called.forward "k, v = tfr.linears"
# expect: told linears Called.forward
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)


class Cross(Base):
    def forward(self, x, states=None):
        q = self.q(x).view(-1, 2, 4)
        is_cross = states is not None
        if is_cross:
            k = self.k(states)
            v = self.v(states)
        else:
            k = self.k(x)
            v = self.v(x)
        return q, k, v


class Late(Base):
    def forward(self, x, states=None):
        q = self.q(x)
        large = q.sum() > 0
        k = v = None
        if large:
            k = self.k(x)
            v = self.v(x)
        return q, k, v


class Changed(Base):
    def forward(self, x, todo):
        q = self.q(x)
        todo.clear()
        k = v = None
        if not todo:
            k = self.k(x)
            v = self.v(x)
        return q, k, v


class Called(Base):
    def forward(self, x, flags):
        q = self.q(x)
        k = v = None
        if len(flags) > 1:
            k = self.k(x)
            v = self.v(x)
        return q, k, v


def cases(dtype):
    x, states = torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 5, 8, dtype=dtype)
    for kind, others in (
        (Cross, (None, states)),
        (Late, (None,)),
        (Changed, ([], [1])),
        (Called, ([], [1, 2])),
    ):
        block, calls = kind().to(dtype), []
        for other in others:
            yield block(x, other)
        for name, child in block.named_children():
            child.register_forward_hook(lambda m, a, o, name=name: calls.append(name))
        for other in others:
            yield block(-x, other)
        yield calls
