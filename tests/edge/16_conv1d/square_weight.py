# GPT-2's Conv1D keeps [in, out]; with a square weight a transposition would go unseen.
# expect: either linears Attn.forward
# expect: no-text "\.weight, self"
import torch
import torch.nn.functional as F
from torch import nn

class Conv1D(nn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.randn(nx, nf))
        self.bias = nn.Parameter(torch.randn(nf))

    def forward(self, x):
        size_out = x.size()[:-1] + (self.nf,)
        x = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return x.view(size_out)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = Conv1D(8, 8)
        self.k_proj = Conv1D(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)


def cases(dtype):
    yield Attn().to(dtype)(torch.randn(2, 3, 8, dtype=dtype))
