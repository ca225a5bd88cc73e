# A tuple without brackets takes what other sequences hold, whatever they are: `y, *[x]`. The file is
# read all the same, and a part that a splat takes in is a part like any other.
# expect: fused rms_norm Norm.forward
# expect: fused linears Returned.forward "y, \*\[t \* 2 for t in \(q, k\)\]"
# expect: fused linears Summed.forward
# expect: fused act_mul Summed.gated
# expect: fused rms_norm Yielded.norms
# expect: refused rms_norm Inside.forward "more than one|read|expression|used"
import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.q, self.k = nn.Linear(8, 4), nn.Linear(8, 6)

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x, *[self.weight * h.to(x.dtype)]


class Returned(Norm):
    def forward(self, x):
        q, k = self.q(x), self.k(x)
        y = x + 1
        return y, *[t * 2 for t in (q, k)]


class Summed(Norm):
    def gated(self, gate, up):
        return F.silu(gate) * up

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        both = q, *(k,) + (x, self.gated(x, x + 1)), *{"a": 1}
        return both[1], *both[0:1], *[both[3]] * 2, len(both), {(0, 1): x}[0, *[1]]


class Yielded(Norm):
    def norms(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        for t in x, *[self.weight * h.to(x.dtype)]:
            yield t, *[2 * t]

    def forward(self, x):
        out = []
        for a, b in self.norms(x):
            out += a, *(b,)
        return out


class Inside(Norm):
    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        both = h, *[self.weight * h.to(x.dtype)]
        return both


def cases(dtype):
    x = torch.randn(3, 8, dtype=dtype)
    for cls in (Norm, Returned, Yielded, Inside, Summed):
        torch.manual_seed(1)
        yield cls().to(dtype)(x)
