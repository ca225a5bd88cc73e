# Operators that bind tighter or looser than the match: the tree around it stays, and a match
# that is none is left.
# expect: either act_mul Mlp.*
# expect: not-fused act_mul Mlp.minus_first
# expect: not-fused act_mul Mlp.power_base
# expect: either act_mul Mlp.scaled_left
# expect: not-fused act_mul Mlp.matrix_left
# expect: not-fused act_mul Mlp.divided
# expect: either act_mul Mlp.powered_up
# expect: fused act_mul Mlp.whole_minus
# expect: fused act_mul Mlp.whole_power
# expect: fused act_mul Mlp.matrix_right
# expect: fused act_mul Mlp.scaled_right
# expect: fused act_mul Mlp.in_sum
# expect: fused act_mul Mlp.method
# expect: fused act_mul Mlp.callee
# expect: fused act_mul Mlp.keyword
import torch
import torch.nn.functional as F
from torch import nn

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Sigmoid()
        self.s = nn.Parameter(torch.randn(8, 8))

    def minus_first(self, g, u):
        return -self.act(g) * u

    def power_base(self, g, u):
        return 2 ** self.act(g) * u

    def scaled_left(self, g, u):
        return self.s * self.act(g) * u

    def matrix_left(self, g, u):
        return self.s @ self.act(g) * u

    def divided(self, g, u):
        return self.act(g) / self.s * u

    def powered_up(self, g, u):
        return self.act(g) * u**2 * 1.5 - self.act(g) ** 2 * u

    def whole_minus(self, g, u):
        return -(self.act(g) * u)

    def whole_power(self, g, u):
        return (self.act(g) * u) ** 2

    def matrix_right(self, g, u):
        return self.act(g) * u @ self.s

    def scaled_right(self, g, u):
        return self.act(g) * u * self.s

    def in_sum(self, g, u):
        return self.s - self.act(g) * u

    def method(self, g, u):
        return (self.act(g) * u).sum()

    def callee(self, g, u):
        return (self.act)(((g))) * ((u))

    def keyword(self, g, u):
        return torch.clamp(input=self.act(g) * u, min=0.1)

    def starred(self, g, u):
        return torch.stack([*self.act(g) * u])

    def subscripted(self, g, u):
        return (self.act(g) * u)[0, 1:3]

    def compared(self, g, u):
        return self.act(g) * u > u, not self.act(g).sum() * u.sum() > 0

    def conditional(self, g, u):
        return self.act(g) * u if g.sum() > 0 else u

    def boolean(self, g, u):
        return None or self.act(g) * u

    def lambdas(self, g, u):
        return (lambda: self.act(g) * u)() + (lambda y=self.act(g) * u: y)()

    def walrus(self, g, u):
        return (y := self.act(g) * u) + y

    def formatted(self, g, u):
        return f"{(self.act(g) * u).sum().item():.4f} {self.act(g).sum() * u.sum()!r:.5}"

    def collections(self, g, u):
        return {"a": self.act(g) * u}, [self.act(g) * u, *self.act(g) * u], (self.act(g) * u,)

    def comprehension(self, g, u):
        return [a * b for a, b in zip(self.act(g) * u, u)], [self.act(a) * b for a, b in zip(g, u)]

    def sliced(self, g, u):
        i = torch.tensor(3)
        return u[: int(self.act(i.float()) * i)]

    def newline(self, g, u):
        return (
            self.act(g)
            *
            u
        )

    def continued(self, g, u):
        y = self.act(g) \
            * u
        return y \
            .t()

    def chained(self, g, u):
        return self.act(g) * u * self.act(u) * g

    def nested(self, g, u):
        return self.act(self.act(g) * u) * (self.act(u) * g)

    def inverted(self, g, u):
        return ~(self.act(g) * u > 0.1) & (self.act(u) * g < 0.3)

    def matmul_both(self, g, u):
        return u @ (self.act(g) * u) @ u

    def unpacked(self, g, u):
        a, *b = self.act(g) * u
        return a, b

    def double_star(self, g, u):
        return torch.add(**{"input": self.act(g) * u, "other": 1})


def cases(dtype):
    mlp = Mlp().to(dtype)
    for name in [n for n in vars(Mlp) if not n.startswith("_")]:
        g, u = torch.randn(8, 8, dtype=dtype), torch.randn(8, 8, dtype=dtype)
        yield name, getattr(mlp, name)(g, u)
