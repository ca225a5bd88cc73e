# Numbers and operators that are easily cut wrongly. The right tree, or a refusal of the file.
# exit: 0 3
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn


class Numbers(nn.Module):
    def forward(self, gate, up):
        y = 1 if gate is up else 0x_1F
        z = 1_000j, 0o17, .5, 5., 1e-3, ..., 0B1
        return F.silu(gate) * up, y, z[0].imag, z[1:5], z[6], -2 ** 2, (-2) ** -2, 2 ** -1 ** 2


def cases(dtype):
    gate, up = torch.randn(3, 8, dtype=dtype), torch.randn(3, 8, dtype=dtype)
    yield [t if isinstance(t, torch.Tensor) else str(t) for t in Numbers()(gate, up)]
    yield gate, up
