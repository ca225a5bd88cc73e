# Python normalises identifiers (NFKC): two spellings are one name. A write through the other
# spelling is a write.
# expect: either act_mul
# expect: either linears
# expect: either rms_norm
import torch
import torch.nn.functional as F
from torch import nn

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.ﬁrst = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x):
        a = self.first(x)
        ｘ.mul_(2)
        b = self.ſecond(x)
        return a, b


class Rebound(nn.Module):
    def forward(self, gate, up):
        y = F.silu(gate)
        ｕｐ = gate * 3
        return y * up


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8))
        self.eps = 1e-6

    def forward(self, x):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        self.ｅｐｓ = 0.5
        return self.weight * (h * torch.rsqrt(v + self.eps)).to(x.dtype)


def cases(dtype):
    with torch.no_grad():
        x = torch.randn(3, 8, dtype=dtype)
        yield Mlp().to(dtype)(x), x
        yield Rebound()(torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype))
        yield Attribute().to(dtype)(x)
