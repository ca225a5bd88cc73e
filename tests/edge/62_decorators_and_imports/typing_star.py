# `from typing import *` rebinds names of typing alone, not those of torch.
# expect: fused act_mul Mlp.forward "tfr.act_mul\(F.silu"
# expect: fused linears Mlp.forward
# expect: not-fused * Shadowed.*
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import silu as final
from typing import *
from typing_extensions import *


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 12)
        self.up_proj = nn.Linear(8, 12)

    def forward(self, x: Optional[torch.Tensor]) -> Tuple[torch.Tensor]:
        return F.silu(self.gate_proj(x)) * self.up_proj(x)


class Shadowed(Mlp):
    def forward(self, x):
        return final(x) * self.up_proj(x)


def cases(dtype):
    import typing

    yield [name for name in ("torch", "nn", "F") if name in typing.__all__]
    x = torch.randn(3, 8, dtype=dtype)
    yield Mlp().to(dtype)(x)
    x = torch.randn(3, 12, dtype=dtype)
    yield lambda: Shadowed().to(dtype)(x)
