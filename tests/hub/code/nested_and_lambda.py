# Functions within functions, lambdas, and what they capture.
# expect: not-fused act_mul
# expect: not-fused linears
import torch
from torch import nn


class Glu(nn.Module):
    def __init__(self, size, kind):
        super().__init__()
        self.gate = nn.Linear(size, size)
        self.up = nn.Linear(size, size)
        self.act = (lambda x: x * torch.sigmoid(x)) if kind else nn.SiLU()
        self.combine = lambda a, b: a * b

    def forward(self, x):
        def gate():
            return self.act(self.gate(x))

        up = self.up(x)
        product = gate() * up
        x = product + 1
        return self.combine(product, x), gate()


def make_norm(eps):
    class Norm(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))

        def forward(self, hidden_states):
            input_dtype = hidden_states.dtype
            hidden_states = hidden_states.to(torch.float32)
            variance = hidden_states.pow(2).mean(-1, keepdim=True)
            hidden_states = hidden_states * torch.rsqrt(variance + eps)
            return self.weight * hidden_states.to(input_dtype)

    return Norm


def cases(dtype):
    x = torch.randn(2, 8, dtype=dtype)
    for kind in (False, True):
        yield Glu(8, kind).to(dtype)(x)
    for eps in (1e-6, 0.5):
        yield make_norm(eps)(8).to(dtype)(x)
