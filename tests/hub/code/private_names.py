# Private names: self.__norm of a base and of a derived class are two attributes.
# expect: fused act_mul Derived.forward
# expect: fused linears Derived.forward
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.__proj = nn.Linear(8, 8)
        self.__scale = 2.0

    def _project(self, x):
        return self.__proj(x) * self.__scale


class Derived(Base):
    def __init__(self):
        super().__init__()
        self.__proj = nn.Linear(8, 8)
        self.__other = nn.Linear(8, 8)
        self.__act = nn.SiLU()

    def forward(self, x):
        below = self._project(x)
        return self.__act(self.__proj(x)) * self.__other(x) + below, self.__proj(x)


def cases(dtype):
    yield Derived().to(dtype)(torch.randn(2, 8, dtype=dtype))
