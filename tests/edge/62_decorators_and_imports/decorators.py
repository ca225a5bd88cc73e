# Stacked, called, multi-line decorators stay, on functions, methods and classes; each decorator
# logs that it ran.
# expect: fused rms_norm Norm.forward
# expect: fused linears Mlp.forward
# expect: fused act_mul Mlp.forward
import torch
import torch.nn.functional as F
from torch import nn
import functools

LOG = []


def logged(*names, **options):
    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            LOG.append((names, function.__name__))
            return function(*args, **kwargs)

        return wrapped

    return decorate


def registered(cls):
    LOG.append(cls.__name__)
    return cls


@registered
@(lambda cls: cls)
class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.eps = eps

    @torch.no_grad()
    @logged("a", "b")
    @logged(
        "multi",  # with a comment
        line=True,
    )
    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(8, 16)
        self.up_proj = nn.Linear(8, 16)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    @logged()
    def forward(self, x):
        return F.silu(self.gate_proj(x)) * self.up_proj(x)

    @property
    @functools.lru_cache(maxsize=None)
    def width(self):
        return self.up_proj.out_features


def cases(dtype):
    yield Norm(8).to(dtype)(torch.randn(3, 8, dtype=dtype))
    mlp = Mlp().to(dtype)
    yield mlp(torch.randn(3, 8, dtype=dtype)), mlp.width
    yield LOG
