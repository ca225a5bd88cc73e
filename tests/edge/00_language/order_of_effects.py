# What raises, raises at the same point, with everything before it done and nothing after it.
# expect: either rms_norm
# expect: either act_mul
# expect: either linears
# expect: fused l2_norm WeightWritten.forward "form=.mean_rsqrt"
# expect: fused l2_norm DtypeLate.forward "form=.mean_rsqrt"
import torch
import torch.nn.functional as F
from torch import nn

LOG = []


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.up = nn.Linear(8, 8)
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6


class CallBetween(Base):
    def forward(self, x):
        gate = self.gate(x)
        note("between", gate)
        up = self.up(x)
        return F.silu(gate) * up


class RaiseBetween(Base):
    def forward(self, x):
        gate = self.gate(x)
        int(x.sum() * float("nan"))
        up = self.up(x)
        return F.silu(gate) * up


class CacheBetween(Base):
    def forward(self, x, cache):
        gate = self.gate(x)
        cache.update(gate)
        up = self.up(x)
        return F.silu(gate) * up


class CacheReturnsInput(Base):
    def forward(self, x, cache):
        gate = self.gate(x)
        y = cache.swap(x)
        up = self.up(y)
        return F.silu(gate) * up


class Dropout(Base):
    def forward(self, x):
        gate = F.dropout(self.gate(x), 0.5)
        up = F.dropout(self.up(x), 0.5)
        return F.silu(gate) * up


class RandomBetween(Base):
    def forward(self, x):
        gate = self.gate(x)
        x = x + torch.randn_like(x)
        up = self.up(x)
        return F.silu(gate + torch.rand_like(gate)) * up


class WeightWritten(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        h = h * torch.rsqrt(v + self.eps)
        self.eps = 0.5
        self.weight.data.mul_(2)
        return self.weight * h.to(x.dtype)


class EpsFirst(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True) + self.eps
        self.eps = self.eps * 10
        y = self.weight * (h * torch.rsqrt(v)).to(x.dtype)
        return y, self.eps


class InputWritten(Base):
    def forward(self, x):
        dtype = x.dtype
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        x.mul_(2)
        return self.weight * (h * torch.rsqrt(v + self.eps)).to(dtype), x


class DtypeLate(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        x = x.double()
        v = h.pow(2).mean(-1, keepdim=True)
        return self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)


class DefaultDtype(Base):
    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        torch.set_default_dtype(torch.float64)
        y = self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)
        torch.set_default_dtype(torch.float32)
        return y


class Cache:
    def __init__(self):
        self.held = []

    def update(self, t):
        self.held.append(t)
        t.mul_(2)

    def swap(self, t):
        t.add_(1)
        return t


def note(what, t):
    LOG.append((what, float(t.sum())))
    if len(LOG) == 2:
        raise ValueError("second")


def cases(dtype):
    with torch.no_grad():
        between, x = CallBetween().to(dtype), torch.randn(3, 8, dtype=dtype)
        for child in ("gate", "up"):
            getattr(between, child).register_forward_hook(lambda m, a, o, child=child: LOG.append((child, 0)))
        for _ in range(3):
            yield lambda: between(x)
            yield list(LOG)
        raising, calls = RaiseBetween().to(dtype), []
        raising.up.register_forward_hook(lambda m, a, o: calls.append("up"))
        yield lambda: raising(x)
        yield calls
        for kind in (CacheBetween, CacheReturnsInput):
            cache, given = Cache(), x.clone()
            yield kind().to(dtype)(given, cache), given, cache.held
        for kind in (Dropout, RandomBetween, WeightWritten, EpsFirst, InputWritten, DtypeLate, DefaultDtype):
            block = kind().to(dtype)
            yield block(x.clone())
            yield block(x.clone())
