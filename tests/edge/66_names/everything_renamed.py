# Not one name of the usual sources: the match hangs on the flow of values.
# expect: fused rms_norm Q.forward
# expect: fused linears R.forward
# expect: fused act_mul R.forward
# expect: fused rope S.forward
# expect: fused add_rms_norm T.forward
import torch as t
import torch.nn as n
import torch.nn.functional as f


def zz(p):
    u = p[..., : p.shape[-1] // 2]
    w = p[..., p.shape[-1] // 2 :]
    return t.cat((-w, u), dim=-1)


def yy(a, b, c, d, e=1):
    c = c.unsqueeze(e)
    d = d.unsqueeze(e)
    g = (a * c) + (zz(a) * d)
    h = (b * c) + (zz(b) * d)
    return g, h


class Q(n.Module):
    def __init__(this, w):
        super().__init__()
        this.ω = n.Parameter(t.randn(w))
        this.ε = 1e-6

    def forward(this, σ):
        dt = σ.dtype
        l = σ.to(t.float32)
        O = l.pow(2).mean(-1, keepdim=True)
        l = l * t.rsqrt(O + this.ε)
        return this.ω * l.to(dt)


class R(n.Module):
    def __init__(self):
        super().__init__()
        self.x1 = n.Linear(8, 8)
        self.x2 = n.Linear(8, 8)
        self.x3 = n.SiLU()

    def forward(self, _):
        return self.x3(self.x1(_)) * self.x2(_)


class S(n.Module):
    def forward(self, a, b, c, d):
        b, a = yy(b, a, c, d)
        return a, b


class T(n.Module):
    def __init__(self):
        super().__init__()
        self.q = Q(8)

    def forward(self, __, ___):
        __ = ___ + __
        return self.q(__), __


def cases(dtype):
    x = t.randn(3, 8, dtype=dtype)
    yield Q(8).to(dtype)(x)
    yield R().to(dtype)(x)
    yield T().to(dtype)(x, x * 2)
    a, c = t.randn(2, 4, 5, 8, dtype=dtype), t.randn(2, 5, 8, dtype=dtype)
    yield S()(a, a.flip(0), c, c.flip(0))
