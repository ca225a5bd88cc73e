# chunk(2) of an odd width gives parts of two sizes; the product fails, or broadcasts where one
# part has one column.
# expect: fused act_mul Mlp.forward
import torch
import torch.nn.functional as F
from torch import nn

class Mlp(nn.Module):
    def forward(self, x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up


def cases(dtype):
    for width in (2, 3, 4, 5, 1, 0):
        yield lambda: Mlp()(torch.randn(2, 3, width, dtype=dtype))
    yield lambda: Mlp()(torch.tensor(1.0, dtype=dtype))
    yield Mlp()(torch.randn(4, 2, 8, dtype=dtype).transpose(0, 2))
    yield Mlp()(torch.randn(2, 16, dtype=dtype)[:, ::2])
    yield Mlp()(torch.tensor([[float("nan"), float("inf"), -0.0, 1.0], [1e30, -1e30, 1e-30, -1e30]], dtype=dtype))
