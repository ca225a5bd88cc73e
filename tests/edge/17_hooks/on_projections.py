# Hooks, pre-hooks, a forward set on the instance, a parametrization, global hooks: each still
# runs, in order.
# expect: fused linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrize


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        return q, k, v


class Halved(nn.Module):
    def forward(self, weight):
        return weight * 0.5


def cases(dtype):
    x = torch.randn(2, 3, 8, dtype=dtype)

    attn = Attn().to(dtype)
    attn.k_proj.register_forward_hook(lambda m, args, out: out * 3)
    yield attn(x)

    attn = Attn().to(dtype)
    attn.v_proj.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    yield attn(x)

    attn = Attn().to(dtype)  # what a hook of q_proj writes, k_proj and v_proj see
    attn.q_proj.register_forward_hook(lambda m, args, out: args[0].add_(1) * 0 + out)
    y = x.clone()
    yield attn(y), y

    attn = Attn().to(dtype)
    attn.q_proj.forward = lambda t: t * 2
    yield attn(x)

    attn = Attn().to(dtype)
    parametrize.register_parametrization(attn.k_proj, "weight", Halved())
    yield attn(x)

    attn = Attn().to(dtype)
    torch.nn.utils.parametrizations.weight_norm(attn.v_proj)
    yield attn(x)

    attn, log = Attn().to(dtype), []
    names = {child: name for name, child in attn.named_children()}
    handle = register_module_forward_hook(lambda m, args, out: log.append(names.get(m, "attn")))
    yield attn(x)
    handle.remove()
    yield attn(x)
    yield log

    attn = Attn().to(dtype)
    attn.q_proj.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    z = x.clone().requires_grad_()
    sum(t.float().pow(2).sum() for t in attn(z)).backward()
    yield z.grad
