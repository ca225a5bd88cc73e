# One class, four kinds of instances: with v, without it, without k and v at all, and with another
# head size. What the instance decides is decided in the call; hooks count that nothing more runs.
# expect: fused linears Attn.forward
# expect: text "tfr.linears\(\n? *x, self.q_proj, None if self.shared else self.k_proj, None if self.shared else self.v_proj"
import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, shared=False, with_v=True, head_dim=4):
        super().__init__()
        self.shared, self.head_dim = shared, head_dim
        self.q_proj = nn.Linear(8, 8)
        if not self.shared:
            self.k_proj = nn.Linear(8, 4)
            self.v_proj = nn.Linear(8, 4) if with_v else None

    def forward(self, x, kv=(None, None)):
        shape = (*x.shape[:-1], -1, self.head_dim)
        q = self.q_proj(x).view(shape)
        q = q * 2
        if self.shared:
            k, v = kv
        else:
            k = self.k_proj(x).view(shape)
            v = self.v_proj(x).view(shape) if self.v_proj is not None else k
            k = k * 3
        return q, k, v


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)
    for attn in (Attn(), Attn(with_v=False), Attn(shared=True), Attn(head_dim=2)):
        attn, calls = attn.to(dtype), []
        yield attn(x)
        for name, child in attn.named_children():
            child.register_forward_hook(lambda m, a, o, name=name: calls.append(name))
        yield attn(x)
        yield attn(x, (1, 2))
        yield calls
