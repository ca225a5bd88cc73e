"""linear: one nn.Linear, for targets where its own kernel wins.

x: [..., K]; module: nn.Linear(K, N); result: [..., N], as the module gives it.
"""

from tfrewrite.rules import Linear, Tensor, op, ref

op("linear(Tensor x, Module module) -> Tensor", cpu="linear.c", specialize="x")


@ref("linear(x, module)", target="host", kernel="")
def m1(x: Tensor, module: Linear):
    return module(x)


# Examples
ACCEPT = {
    "m1": [
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.o_proj = nn.Linear(8, 8)

    def forward(self, x):
        return self.o_proj(x)
"""
    ]
}
REJECT = [
    """
class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.o_proj = Scaled(8, 8)

    def forward(self, x):
        return self.o_proj(x)
"""
]
