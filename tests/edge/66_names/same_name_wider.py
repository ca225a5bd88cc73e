# Python reads a name in another width as the same name (NFKC): here the rebinding of x.
# expect: refused linears Wide.forward "another one"
import torch
import torch.nn.functional as F
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, y):
        a = x
        ｘ = y  # noqa: F841
        return self.q(a), self.k(x)


def cases(dtype):
    x, y = torch.randn(2, 8, dtype=dtype), torch.randn(2, 8, dtype=dtype)
    yield Wide().to(dtype)(x, y)
