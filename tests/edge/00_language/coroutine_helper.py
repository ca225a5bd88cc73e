# A coroutine function gives a coroutine: its call cannot become the call of an op.
# expect: not-fused rope Awaits.forward
# expect: told rope rope
import torch
import torch.nn.functional as F
from torch import nn


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


async def rope(x, cos, sin):
    return (x * cos) + (rotate_half(x) * sin)


class Awaits(nn.Module):
    async def forward(self, x, cos, sin):
        return await rope(x, cos, sin)


def cases(dtype):
    x, cos, sin = (torch.randn(2, 3, 8, dtype=dtype) for _ in range(3))
    try:
        Awaits()(x, cos, sin).send(None)
    except StopIteration as stop:
        yield stop.value
