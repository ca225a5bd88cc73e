# Code that runs when somebody asks for the next value: generators, coroutines, generator
# expressions, lazily used lambdas.
# expect: either act_mul
# expect: either linears
import torch
import torch.nn.functional as F
from torch import nn
import asyncio


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)


class Generator(Base):
    def steps(self, x):
        gate = self.gate(x)
        yield gate
        up = self.up(x)
        yield F.silu(gate) * up

    def forward(self, x):
        out = []
        for value in self.steps(x):
            out.append(value.clone())
            with torch.no_grad():
                x.mul_(2)
                value.add_(1)
        return out


class Sent(Base):
    def steps(self, x):
        gate = self.gate(x)
        x = yield gate
        up = self.up(x)
        yield F.silu(gate) * up

    def forward(self, x):
        steps = self.steps(x)
        first = next(steps)
        return first, steps.send(x * 3)


class Coroutine(Base):
    async def run(self, x):
        gate = self.gate(x)
        await asyncio.sleep(0)
        up = self.up(x)
        return F.silu(gate) * up

    async def write(self, x):
        x.mul_(2)

    def forward(self, x):
        async def both():
            return (await asyncio.gather(self.run(x), self.write(x)))[0]

        return asyncio.run(both())


class Lazy(Base):
    def forward(self, x):
        later = (layer(x) for layer in (self.gate, self.up))
        gate = next(later)
        x = x * 2
        up = next(later)
        return F.silu(gate) * up


class LazyLambda(Base):
    def forward(self, x):
        f = lambda: F.silu(self.gate(x)) * self.up(x)
        first = f()
        x = x + 1
        return first, f()


def cases(dtype):
    with torch.no_grad():
        for kind in (Generator, Sent, Coroutine, Lazy, LazyLambda):
            x = torch.randn(3, 8, dtype=dtype)
            yield kind().to(dtype)(x), x
