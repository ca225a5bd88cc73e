# A T5 of our own: a norm in float32 without a mean, gated GELU through temporaries, relative bias.
# expect: fused rms_norm TLayerNorm.forward
# expect: fused act_mul TGated.forward
# expect: fused linears TGated.forward
import torch
from torch import nn


class TLayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)

        # convert into half-precision if necessary
        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            hidden_states = hidden_states.to(self.weight.dtype)

        return self.weight * hidden_states


class TGated(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi_0 = nn.Linear(16, 24, bias=False)
        self.wi_1 = nn.Linear(16, 24, bias=False)
        self.wo = nn.Linear(24, 16, bias=False)
        self.dropout = nn.Dropout(0.0)
        self.act = nn.GELU(approximate="tanh")

    def forward(self, hidden_states):
        hidden_gelu = self.act(self.wi_0(hidden_states))
        hidden_linear = self.wi_1(hidden_states)
        hidden_states = hidden_gelu * hidden_linear
        hidden_states = self.dropout(hidden_states)
        if (
            isinstance(self.wo.weight, torch.Tensor)
            and hidden_states.dtype != self.wo.weight.dtype
            and self.wo.weight.dtype != torch.int8
        ):
            hidden_states = hidden_states.to(self.wo.weight.dtype)
        hidden_states = self.wo(hidden_states)
        return hidden_states


class TFeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.DenseReluDense = TGated()
        self.layer_norm = TLayerNorm(16)
        self.dropout = nn.Dropout(0.0)

    def forward(self, hidden_states):
        forwarded_states = self.layer_norm(hidden_states)
        forwarded_states = self.DenseReluDense(forwarded_states)
        hidden_states = hidden_states + self.dropout(forwarded_states)
        return hidden_states


def cases(dtype):
    yield TFeedForward().to(dtype).eval()(torch.randn(2, 5, 16, dtype=dtype))
