# Comments between, after and inside the lines of a match stay.
# expect: fused rms_norm Norm.forward
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
# expect: text "# keep 1" "# keep 2" "# keep 3" "# keep 4" "# keep 5" "# keep 6" "# keep 7" "# keep 8"
import torch
import torch.nn.functional as F
from torch import nn

class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    def forward(self, x):
        # keep 1: before
        dtype = x.dtype  # keep 2: at the end of a line

        # keep 3: on its own
        x = x.to(torch.float32)
        variance = (
            x.pow(2)  # keep 4: inside parentheses
            .mean(-1, keepdim=True)
        )

        x = x * torch.rsqrt(variance + self.eps)  # keep 5: \1 $0 {braces} % and "quotes"
        return self.weight * x.to(dtype)  # keep 6: after the return
        # keep 7: after everything


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)
        self.down_proj = nn.Linear(16, 8)

    def forward(self, x):
        return self.down_proj(
            F.silu(self.gate_proj(x))
            # keep 8: between the factors
            * self.up_proj(x)
        )


def cases(dtype):
    yield Norm(8).to(dtype)(torch.randn(3, 8, dtype=dtype))
    yield Mlp().to(dtype)(torch.randn(3, 8, dtype=dtype))
