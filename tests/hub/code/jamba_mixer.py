# Mamba as Jamba has it: a packed input projection, a causal convolution, norms on dt, B and C, a
# scan in a Python loop, a gate by SiLU.
# expect: fused rms_norm JRMSNorm.forward
# expect: fused act_mul Mixer.forward
import torch
from torch import nn


class JRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size).uniform_(0.5, 1.5))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)


class Mixer(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.inner, self.state, self.dt_rank = 2 * hidden, 4, 3
        self.conv1d = nn.Conv1d(self.inner, self.inner, 4, groups=self.inner, padding=3)
        self.act = nn.SiLU()
        self.in_proj = nn.Linear(hidden, 2 * self.inner, bias=False)
        self.x_proj = nn.Linear(self.inner, self.dt_rank + 2 * self.state, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, self.inner)
        A = torch.arange(1, self.state + 1)[None, :].expand(self.inner, -1).contiguous()
        self.A_log = nn.Parameter(torch.log(A))
        self.D = nn.Parameter(torch.ones(self.inner))
        self.out_proj = nn.Linear(self.inner, hidden, bias=False)
        self.dt_layernorm = JRMSNorm(self.dt_rank)
        self.b_layernorm = JRMSNorm(self.state)
        self.c_layernorm = JRMSNorm(self.state)

    def forward(self, input_states):
        batch_size, seq_len, _ = input_states.shape
        dtype = input_states.dtype
        projected_states = self.in_proj(input_states).transpose(1, 2)
        hidden_states, gate = projected_states.chunk(2, dim=1)
        hidden_states = self.act(self.conv1d(hidden_states)[..., :seq_len])
        ssm_parameters = self.x_proj(hidden_states.transpose(1, 2))
        time_step, B, C = torch.split(ssm_parameters, [self.dt_rank, self.state, self.state], dim=-1)
        time_step = self.dt_layernorm(time_step)
        B = self.b_layernorm(B)
        C = self.c_layernorm(C)
        discrete_time_step = nn.functional.softplus(self.dt_proj(time_step)).transpose(1, 2)
        A = -torch.exp(self.A_log.float())
        discrete_A = torch.exp(A[None, :, None, :] * discrete_time_step[:, :, :, None])
        discrete_B = discrete_time_step[:, :, :, None] * B[:, None, :, :].float()
        deltaB_u = discrete_B * hidden_states[:, :, :, None].float()
        ssm_state = torch.zeros(batch_size, self.inner, self.state, dtype=dtype)
        scan_outputs = []
        for i in range(seq_len):
            ssm_state = discrete_A[:, :, i, :] * ssm_state + deltaB_u[:, :, i, :]
            scan_output = torch.matmul(ssm_state.to(dtype), C[:, i, :].unsqueeze(-1))
            scan_outputs.append(scan_output[:, :, 0])
        scan_output = torch.stack(scan_outputs, dim=-1)
        scan_output = scan_output + (hidden_states * self.D[None, :, None])
        scan_output = scan_output * self.act(gate)
        return self.out_proj(scan_output.transpose(1, 2))


def cases(dtype):
    yield Mixer().to(dtype)(torch.randn(2, 5, 16, dtype=dtype))
