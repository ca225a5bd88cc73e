"""act_mul: act(gate) * up, the middle of a gated MLP.

gate, up: [..., I], or one tensor [..., 2 I] that holds both: `packed` says how. Result: [..., I] in their dtype, rounded after the activation and
after the product. act: a module or function of one tensor. Source: Shazeer 2020, arXiv:2002.05202.
"""

import torch.nn.functional as F
from tfrewrite.rules import Act, Const, Tensor, op, ref

op(
    "act_mul(Module? act, Tensor gate, Tensor? up, *, str packed='', int dim=-1, str function='')",
    cpu="act_mul.c",
    cuda="act_mul.cu",
)


@ref("act_mul(act, gate, up)", kernel="LAYOUT=TWO_INPUTS")
def two_inputs(act: Act, gate: Tensor, up: Tensor):
    return act(gate) * up


@ref("act_mul(act, gate_up, packed='gate_up', dim=dim)", kernel="LAYOUT=GATE_UP")
def packed_gate_first(act: Act, gate_up: Tensor, dim: Const):
    gate, up = gate_up.chunk(2, dim=dim)
    return act(gate) * up


@ref("act_mul(act, up_gate, packed='up_gate', dim=dim)", kernel="LAYOUT=UP_GATE")
def packed_up_first(act: Act, up_gate: Tensor, dim: Const):
    up, gate = up_gate.chunk(2, dim=dim)
    return act(gate) * up


@ref("act_mul(act, gate_up, packed='interleaved')", kernel="LAYOUT=INTERLEAVED")
def packed_interleaved(act: Act, gate_up: Tensor):
    return act(gate_up[..., ::2]) * gate_up[..., 1::2]


@ref("act_mul(gate, up, function='gelu_tanh')", kernel="LAYOUT=TWO_INPUTS ACT=GELU_TANH")
def gelu_tanh_function(gate: Tensor, up: Tensor):
    return F.gelu(gate, approximate="tanh") * up


@ref("act_mul(gate, up, function='relu2')", kernel="LAYOUT=TWO_INPUTS ACT=RELU2")
def squared_relu_function(gate: Tensor, up: Tensor):
    return F.relu(gate).pow(2) * up


# Examples
HEAD = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.act_fn = nn.SiLU()
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(8, 16)
"""
ACCEPT = {
    "two_inputs": [
        HEAD
        + """
    def forward(self, x):
        return self.act_fn(self.a(x)) * self.b(x)
""",
        HEAD
        + """
    def forward(self, x):
        up = self.b(x)
        gate = self.act_fn(self.a(x))
        x = up * gate
        return x
""",
        HEAD
        + """
    def forward(self, x):
        return F.silu(self.a(x)) * self.b(x)
""",
    ],
    "gelu_tanh_function": [
        HEAD
        + """
    def forward(self, x):
        gate = nn.functional.gelu(self.a(x), approximate="tanh")
        return self.b(x) * gate
"""
    ],
    "squared_relu_function": [
        HEAD
        + """
    def forward(self, x):
        return torch.square(F.relu(self.a(x))) * self.b(x)
"""
    ],
    "packed_gate_first": [
        HEAD
        + """
    def forward(self, x):
        up_states = self.a(x)
        gate, up_states = up_states.chunk(2, dim=-1)
        return up_states * self.act_fn(gate)
"""
    ],
    "packed_up_first": [
        HEAD
        + """
    def forward(self, x):
        up, gate = torch.chunk(self.a(x), 2, -1)
        return up * self.act_fn(gate)
"""
    ],
    "packed_interleaved": [
        HEAD
        + """
    def forward(self, x):
        x = self.a(x)
        return self.act_fn(x[..., ::2]) * x[..., 1::2]
"""
    ],
}
REJECT = [
    # not gated
    HEAD
    + """
    def forward(self, x):
        return self.b(self.act_fn(self.a(x)))
""",
    # act is a module of the file with an effect
    """
class Act(nn.Module):
    def forward(self, x):
        return x.relu_()


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.act_fn = Act()
        self.a = nn.Linear(8, 16)
        self.b = nn.Linear(8, 16)

    def forward(self, x):
        return self.act_fn(self.a(x)) * self.b(x)
""",
]
