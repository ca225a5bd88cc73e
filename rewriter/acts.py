"""The activations that kernels know, in the order of codegen_templates/acts.h, as the aten programs of ops that take one compute them.

Each is what torch or Transformers runs for it (python/tfrewrite/activations.py), with its rounding points.
"""

import torch
import torch.nn.functional as F


def silu(x):
    return F.silu(x)


def gelu(x):
    return F.gelu(x)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def relu(x):
    return F.relu(x)


def relu2(x):
    return F.relu(x).pow(2)


def sigmoid(x):
    return torch.sigmoid(x)


def tanh(x):
    return torch.tanh(x)


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def new_gelu(x):
    inner = 0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def identity(x):
    return x
