# q is computed at the top, k and v only when the cache has none. Hooks count the calls: nothing
# may run in addition.
# expect: either linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x, cache=None):
        q = self.q_proj(x)
        if cache is not None and "k" in cache:
            k, v = cache["k"], cache["v"]
        else:
            k = self.k_proj(x)
            v = self.v_proj(x)
            if cache is not None:
                cache["k"], cache["v"] = k, v
        return q, k, v


def cases(dtype):
    attn, calls = Attn().to(dtype), []
    for name, child in attn.named_children():
        child.register_forward_hook(lambda m, a, o, name=name: calls.append(name))
    x, cache = torch.randn(2, 3, 8, dtype=dtype), {}
    yield attn(x, cache)
    yield attn(x, cache)
    yield calls
