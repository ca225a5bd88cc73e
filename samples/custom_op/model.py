"""A model that squashes its attention scores and its logits. Knows nothing of tfrewrite."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, size, slope):
        super().__init__()
        self.slope = slope
        self.qkv_proj = nn.Linear(size, 3 * size)

    def forward(self, x):
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-1, -2)
        # Large scores saturate instead of taking over.
        scores = scores * self.slope
        scores = torch.tanh(scores)
        return scores.softmax(-1) @ v


class Model(nn.Module):
    def __init__(self, size=32, vocabulary=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.attention = Attention(size, slope=0.2)
        self.lm_head = nn.Linear(size, vocabulary)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        logits = self.lm_head(x + self.attention(x))
        return torch.tanh(0.1 * logits.float()).to(logits.dtype)
