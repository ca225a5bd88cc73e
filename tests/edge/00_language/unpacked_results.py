# `a, b = first, second`, where the items are the results of one op in its order: the call takes the
# place of both. Where there are more, or another target, the results get names of their own first.
# expect: fused linears A.forward "q, k, v = tfr\.linears\(x, self\.q, self\.k, self\.v\)"
# expect: fused linears A.swapped "k, v, q = tfr\.linears\(x, self\.k, self\.q, self\.v\)"
# expect: fused linears A.more "q, k, y = q_out, k_out, x \+ 1"
# expect: fused linears A.part "\(q, k\), v = \(q_out, k_out\), v_out"
# expect: fused linears A.bracket "# of queries\n.*# values\n.*\(q, k, _\) = tfr\.linears\("
# expect: fused linears A.twice x2 "self\.kept, b = tfr\.linears\(x, self\.q, self\.k\)\n(.*\n)*.* = c = q, k"
# expect: fused linears A.star "a, \*b = tfr\.linears\(x, self\.q, self\.k, self\.v\)"
# expect: fused linears A.items "x\[0\], b = tfr\.linears\(x, self\.q, self\.k\)"
# expect: refused linears A.unread "nothing reads"
# expect: fused rope apply "q, k = tfr\.rope\("
# expect: either rope cases
# expect: fused rope apply_swapped "k, q = tfr\.rope\(k, q, "
import torch
import torch.nn.functional as F
from torch import nn


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        return q, k, v

    def swapped(self, x):
        k, v, q = self.k(x), self.q(x), self.v(x)
        return q, k, v

    def more(self, x):
        q, k, y = self.q(x), self.k(x), x + 1
        return q, k, y

    def part(self, x):
        (q, k), v = (self.q(x), self.k(x)), self.v(x)
        return q, k, v

    def bracket(self, x):
        (q, k, _) = (
            self.q(x),  # of queries
            self.k(x),
            # values
            self.v(x),
        )
        return q, k

    def twice(self, x):
        self.kept, b = self.q(x), self.k(x)
        a, b = c = self.q(x), self.k(x)
        return a, b, len(c), self.kept

    def star(self, x):
        a, *b = self.q(x), self.k(x), self.v(x)
        return a, b

    def items(self, x):
        x = x.clone()
        x[0], b = self.q(x), self.k(x)
        return x, b

    def unread(self, x):
        a, b = self.q(x), self.k(x)
        return x


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply(q, k, cos, sin):
    q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
    return q, k


def apply_swapped(q, k, cos, sin):
    k, q = k * cos + rotate_half(k) * sin, q * cos + rotate_half(q) * sin
    return q, k


def cases(dtype):
    x = torch.randn(1, 8, dtype=dtype)
    a = A().to(dtype)
    for name in ("forward", "swapped", "more", "part", "bracket", "twice", "star", "items", "unread"):
        yield getattr(a, name)(x)
    q, k, cos, sin = (torch.randn(2, 3, 5, 8, dtype=dtype) for _ in range(4))
    yield apply(q, k, cos, sin)
    yield apply_swapped(q, k, cos, sin)
