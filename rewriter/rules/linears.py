"""linears: several nn.Linear modules applied to one value, as q, k and v or gate and up are.

x: [..., K]; module i: nn.Linear(K, N_i), with or without bias; results: one tensor [..., N_i] per module, as each module alone gives it.
A module may be None, and so is its result then: `self.v_proj` of an instance that has none, `self.k_proj if test else None` where the source
calls it under a condition.
"""

from tfrewrite.rules import Linear, Tensor, op, siblings

op("linears(Tensor x, *Module modules) -> Tensor[]", cpu="linear.c", specialize="x")


@siblings("linears(x, *modules)", at_least=2, kernel="")
def one_input(x: Tensor, *modules: Linear):
    return tuple(module(x) for module in modules)


# Examples
HEAD = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(8, 32), nn.Linear(8, 16, bias=False)
        self.v_proj = nn.Linear(8, 24)
"""
ACCEPT = {
    "one_input": [
        """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 32)
        self.k_proj = nn.Linear(8, 16, bias=False)
        self.v_proj = nn.Linear(8, 24)

    def forward(self, x):
        q = self.q_proj(x).view(-1, 4, 8)
        k = self.k_proj(x)
        return q, k, self.v_proj(x)
"""
    ]
}
REJECT = [
    # the input changes between the two
    """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        y = self.a(x)
        x = x * 2
        return y + self.b(x)
""",
    """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        y = self.a(x)
        x.mul_(2)
        return y + self.b(x)
""",
]
