"""Small modeling files: one of a package laid out as Transformers is, one as Hub code is."""

DEMO = '''
"""A modeling module."""
import torch
from torch import nn

from .configuration_demo import SIZE


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rotary(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def rotate(q, k, cos, sin):
    return apply_rotary(q, k, cos, sin)


class DemoMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


class DemoOdd(nn.Module):
    def forward(self, x):
        raise ValueError("odd")
'''

CONFIGURATION = """
from transformers import PretrainedConfig


class DemoConfig(PretrainedConfig):
    model_type = "demo"

    def __init__(self, vocab_size=5000, hidden_size=512, num_hidden_layers=12, kind="a", **more):
        self.vocab_size, self.hidden_size, self.kind = vocab_size, hidden_size, kind
        self.num_hidden_layers = num_hidden_layers
        super().__init__(**more)
"""

MODELING = """
import torch
from torch import nn

from transformers import PreTrainedModel
from .configuration_demo import DemoConfig


class DemoMLP(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(size, size), nn.Linear(size, size)
        self.act_fn = nn.SiLU()

    def forward(self, x):
        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)


class DemoPreTrainedModel(PreTrainedModel):
    config_class = DemoConfig

    def _init_weights(self, module):
        pass


class DemoModel(DemoPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        size, depth = config.hidden_size, config.num_hidden_layers
        self.layers = nn.ModuleList([DemoMLP(size) for _ in range(depth)])
        self.post_init()

    def forward(self, input_ids, attention_mask=None):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = x + layer(x)
        return {"last_hidden_state": x}


class DemoForWhatCannotRun(DemoPreTrainedModel):
    def __init__(self, config):
        raise RuntimeError("needs a camera")
"""
