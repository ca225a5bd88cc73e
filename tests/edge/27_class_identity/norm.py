# The class stays the class: name, bases, attributes, state, signature, objects that did not run
# __init__.
# expect: fused rms_norm EdgeRMSNorm.forward
import torch
import torch.nn.functional as F
from torch import nn
import copy
import inspect


class EdgeRMSNorm(nn.Module):
    """A norm."""

    def __init__(self, width, eps=1e-6):
        """Weight of ones."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        """Normalises the last axis."""
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"


class Child(EdgeRMSNorm):
    def forward(self, hidden_states):
        return super().forward(hidden_states) + 1


def cases(dtype):
    norm, x = EdgeRMSNorm(16).to(dtype), torch.randn(3, 16, dtype=dtype)
    yield isinstance(norm, EdgeRMSNorm), type(norm).__name__, type(norm).__mro__[1].__name__, repr(norm)
    before = sorted(vars(norm))
    yield norm(x)
    yield before == sorted(vars(norm)), before, list(norm.state_dict())
    yield str(inspect.signature(EdgeRMSNorm.__init__)), str(inspect.signature(EdgeRMSNorm.forward))
    yield EdgeRMSNorm.__doc__, EdgeRMSNorm.__init__.__doc__, EdgeRMSNorm.forward.__doc__
    yield EdgeRMSNorm.forward.__qualname__, EdgeRMSNorm.__module__
    yield copy.deepcopy(norm)(x)
    yield Child(16).to(dtype)(x)
    bare = EdgeRMSNorm.__new__(EdgeRMSNorm)
    nn.Module.__init__(bare)
    bare.weight = nn.Parameter(torch.randn(16, dtype=dtype))
    yield lambda: bare(x)
    bare.variance_epsilon = 1e-2
    yield bare(x)
    yield EdgeRMSNorm.forward(bare, x)

    class Duck:
        weight, variance_epsilon = torch.full((16,), 2.0, dtype=dtype), 1e-3

    yield EdgeRMSNorm.forward(Duck(), x)
    EdgeRMSNorm.forward = lambda self, t: t * 7
    yield norm(x)
