# The inputs are written alike, but each evaluation gives another value, or gives it once only.
# expect: either linears
# expect: not-fused linears Pop.forward
# expect: not-fused linears Next.forward
# expect: not-fused linears Random.forward
# expect: not-fused linears Dropout.forward
# expect: not-fused linears DropoutModule.forward
# expect: not-fused linears Read.forward
# expect: not-fused linears Call.forward
import torch
import torch.nn.functional as F
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)
        self.n = 0

    @property
    def state(self):
        self.n += 1
        return torch.full((2, 8), float(self.n), dtype=self.a.weight.dtype)

    def step(self, x):
        self.n += 1
        return x * self.n


class Pop(Pair):
    def forward(self, x):
        held = [x, x * 2]
        return self.a(held.pop()), self.b(held.pop())


class Next(Pair):
    def forward(self, x):
        held = iter((x, x * 2))
        return self.a(next(held)), self.b(next(held))


class Random(Pair):
    def forward(self, x):
        return self.a(x + torch.rand_like(x)), self.b(x + torch.rand_like(x))


class Dropout(Pair):
    def forward(self, x):
        return self.a(F.dropout(x, 0.5)), self.b(F.dropout(x, 0.5))


class DropoutModule(Pair):
    def forward(self, x):
        return self.a(self.drop(x)), self.b(self.drop(x))


class Read(Pair):
    def forward(self, x):
        return self.a(self.state), self.b(self.state)


class Call(Pair):
    def forward(self, x):
        return self.a(self.step(x)), self.b(self.step(x))


class Indexed(Pair):
    def forward(self, x):
        held = [x, x * 2]
        a = self.a(held[0])
        held[0] = held[1]
        return a, self.b(held[0]), self.a(held[0]), self.b(held[1])


class Sliced(Pair):
    def forward(self, x):
        return self.a(x[:1]), self.b(x[:1]), self.a(x[1:]), self.b(x[1:].clone())


class Attribute(Pair):
    def forward(self, x):
        self.held = x
        a = self.a(self.held)
        self.held = x * 3
        return a, self.b(self.held)


def cases(dtype):
    for kind in (Pop, Next, Random, Dropout, DropoutModule, Read, Call, Indexed, Sliced, Attribute):
        block = kind().to(dtype)
        yield block(torch.randn(2, 8, dtype=dtype)), block.n
