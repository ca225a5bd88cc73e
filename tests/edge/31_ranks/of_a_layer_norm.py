# Ranks, rows that broadcast, dtypes that differ, and norms over other axes than the last one.
# expect: fused add_layer_norm Layer.forward
# expect: fused add_layer_norm Post.forward "keep_sum=False"
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, shape=8, **kind):
        super().__init__()
        self.norm = nn.LayerNorm(shape, **kind)

    def forward(self, x, residual):
        residual = residual + x
        x = self.norm(residual)
        return x, residual


class Post(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x, residual):
        return self.norm(x + residual)


def cases(dtype):
    def draw(*shape):
        return torch.randn(*shape, dtype=dtype)

    for layer in (Layer(), Layer(elementwise_affine=False), Layer(bias=False), Post()):
        layer = layer.to(dtype)
        for p in layer.parameters():
            nn.init.normal_(p)
        for shape in ((8,), (3, 8), (1, 3, 8), (2, 3, 4, 8), (0, 8), (1, 1, 8)):
            yield layer(draw(*shape), draw(*shape))
        yield layer(draw(1, 8), draw(4, 8))
        yield layer(draw(4, 8), draw(1, 8))
        yield layer(draw(2, 4, 8), draw(4, 8))
        yield layer(draw(8), draw(2, 4, 8))
        yield layer(draw(4, 8), draw(4, 1))
        yield layer(draw(8, 4).t(), draw(4, 8))
        yield layer(2, draw(4, 8))
        yield lambda layer=layer: layer(draw(4, 8), torch.randn(4, 8, dtype=torch.float64))
        yield lambda layer=layer: layer(draw(4, 8), torch.randn(4, 8))
        yield lambda layer=layer: layer(draw(3, 8), draw(4, 8))
        yield lambda layer=layer: layer(draw(4, 7), draw(4, 7))
        yield lambda layer=layer: layer("x", draw(4, 8))
    for shape in ((4, 8), (1, 8), (2, 4, 8)):  # over several axes: torch's own runs
        layer = Layer(shape).to(dtype)
        yield lambda layer=layer: layer(draw(2, 4, 8), draw(2, 4, 8))
        yield lambda layer=layer: layer(draw(2, 1, 8), draw(2, 1, 8))
    for eps in (1e-12, 0.0, 3.0, 1):  # the instance's own; an int is not the kernel's
        yield Layer(eps=eps).to(dtype)(draw(3, 8), draw(3, 8))
