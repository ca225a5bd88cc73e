# q comes from one projection or from two, k and v from one that runs in any case: one of the two
# first ones exists in an instance.
# expect: fused linears Attn.forward
# expect: text "self.q_proj if self.rank is None else None, None if self.rank is None else self.q_a, self.kv_a"
import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank
        if rank is None:
            self.q_proj = nn.Linear(8, 8)
        else:
            self.q_a = nn.Linear(8, rank)
            self.q_b = nn.Linear(rank, 8)
        self.kv_a = nn.Linear(8, 6)

    def forward(self, x):
        if self.rank is None:
            q = self.q_proj(x)
        else:
            q = self.q_b(torch.tanh(self.q_a(x)))
        q = q.view(2, 3, 2, 4)
        kv = self.kv_a(x)
        return q, kv


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for rank in (None, 2):
        attn, calls = Attn(rank).to(dtype), []
        yield attn(x)
        for name, child in attn.named_children():
            child.register_forward_hook(lambda m, a, o, name=name: calls.append(name))
        yield attn(x)
        yield sorted(calls)
