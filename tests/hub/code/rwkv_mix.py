# RWKV: token shift, a recurrence over time, squared ReLU and a receptance gate.
# expect: fused act_mul ChannelMix.forward
# expect: fused add_layer_norm RwkvBlock.forward
# expect: not-fused linears
# expect: refused act_mul TimeMix.forward "between its parts"
import torch
from torch import nn


class TimeMix(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.time_decay = nn.Parameter(torch.rand(size))
        self.time_first = nn.Parameter(torch.rand(size))
        self.time_mix_key = nn.Parameter(torch.rand(1, 1, size))
        self.time_mix_value = nn.Parameter(torch.rand(1, 1, size))
        self.time_mix_receptance = nn.Parameter(torch.rand(1, 1, size))
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size, bias=False)
        self.receptance = nn.Linear(size, size, bias=False)
        self.output = nn.Linear(size, size, bias=False)

    def forward(self, hidden):
        shifted = self.time_shift(hidden)
        key = hidden * self.time_mix_key + shifted * (1 - self.time_mix_key)
        value = hidden * self.time_mix_value + shifted * (1 - self.time_mix_value)
        receptance = hidden * self.time_mix_receptance + shifted * (1 - self.time_mix_receptance)
        key = self.key(key).float()
        value = self.value(value)
        receptance = torch.sigmoid(self.receptance(receptance))
        output = torch.zeros_like(key)
        num = den = torch.zeros_like(key[:, 0])
        for t in range(key.shape[1]):
            k, v = key[:, t], value[:, t].float()
            e = torch.exp(self.time_first.float() + k)
            output[:, t] = (num + e * v) / (den + e)
            decay = torch.exp(-torch.exp(self.time_decay.float()))
            num, den = decay * num + torch.exp(k) * v, decay * den + torch.exp(k)
        return self.output(receptance * output.to(hidden.dtype))


class ChannelMix(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.time_mix_key = nn.Parameter(torch.rand(1, 1, size))
        self.key = nn.Linear(size, 2 * size, bias=False)
        self.receptance = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(2 * size, size, bias=False)

    def forward(self, hidden):
        shifted = self.time_shift(hidden)
        key = hidden * self.time_mix_key + shifted * (1 - self.time_mix_key)
        key = self.key(key)
        key = torch.square(torch.relu(key))
        value = self.value(key)
        receptance = torch.sigmoid(self.receptance(hidden))
        return receptance * value


class RwkvBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attention, self.feed_forward = TimeMix(16), ChannelMix(16)

    def forward(self, hidden):
        attention = self.attention(self.ln1(hidden))
        hidden = hidden + attention
        feed_forward = self.feed_forward(self.ln2(hidden))
        hidden = hidden + feed_forward
        return hidden


def cases(dtype):
    yield RwkvBlock().to(dtype)(torch.randn(2, 5, 16, dtype=dtype))
