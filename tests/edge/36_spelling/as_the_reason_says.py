# Blocks that are refused, and the same blocks as the reason says they would be fused.
# expect: refused rope Cut.forward "joined along dim=-1 it would be fused"
# expect: fused rope CutAsSaid.forward "layout=.half"
# expect: refused l2_norm Clamped.forward "x\.norm\(dim=-1, keepdim=True\)\.clamp\(min=eps\)"
# expect: fused l2_norm ClampedAsSaid.forward "form=.normalize"
# expect: refused l2_norm Counted.forward "\.mean\(-1, keepdim=True\), with eps added under the root"
# expect: fused l2_norm CountedAsSaid.forward "form=.mean_sqrt"
# expect: refused linears Gated.forward "both would have to, or none"
# expect: fused linears GatedAsSaid.forward
import torch
from torch import nn


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.size, self.eps, self.act = 8, 1e-3, nn.SiLU()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)


class Cut(Sized):
    def forward(self, x, cos, sin):
        first, second = x[..., : self.size // 2], x[..., self.size // 2 :]
        return (x * cos) + (torch.cat((-second, first), dim=first.ndim - 1) * sin)


class CutAsSaid(Sized):
    def forward(self, x, cos, sin):
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return (x * cos) + (torch.cat((-second, first), dim=-1) * sin)


class Clamped(Sized):
    def forward(self, x):
        return x / torch.sqrt(torch.clamp(torch.sum(x**2, dim=-1, keepdim=True), min=self.eps))


class ClampedAsSaid(Sized):
    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True).clamp(min=self.eps)


class Counted(Sized):
    def forward(self, x, mask):
        return x / ((x.pow(2).sum(1, keepdim=True) / mask.sum(1, keepdim=True)).sqrt() + 1e-5)


class CountedAsSaid(Sized):
    def forward(self, x, mask):
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class Gated(Sized):
    def forward(self, x):
        return self.act(self.a(x)), self.b(x)


class GatedAsSaid(Sized):
    def forward(self, x):
        return self.a(x), self.b(x)


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    cos, sin = torch.rand(2, 3, 8, dtype=dtype), torch.rand(2, 3, 8, dtype=dtype)
    for kind in (Cut, CutAsSaid):
        yield kind()(x, cos, sin)
    for kind in (Counted, CountedAsSaid):
        yield kind()(x, torch.ones(2, 3, 1, dtype=dtype))
    for kind in (Clamped, ClampedAsSaid, Gated, GatedAsSaid):
        yield kind().to(dtype)(x)
