"""act_mul: act(gate) * up, the middle of a gated MLP.

gate, up: [..., I], or one tensor [..., 2 I] that holds both: `packed` says how. Result: [..., I] in their dtype, rounded after the activation and
after the product. act: a module or function of one tensor. Source: Shazeer 2020, arXiv:2002.05202.

clamp: gate at most limit, before or after the activation, and up within -limit and limit. function='sloped': x * sigmoid(slope * x), rounded after
each operation, with clamps and up + 1 as in gpt-oss. cast='float32': rounded once, at the end, to gate's dtype.
"""

import torch
import torch.nn.functional as F
from tfrewrite.rules import Act, Const, Scalar, Tensor, op, ref, refuse

op(
    "act_mul(Module? act, Tensor gate, Tensor? up, *, str packed='', int dim=-1, str function='', str clamp='', float limit=0, float slope=1, str cast='')",
    cpu="act_mul.c",
    cuda="act_mul.cu",
)


@ref("act_mul(act, gate, up)", kernel="LAYOUT=TWO_INPUTS FORM=PLAIN")
def two_inputs(act: Act, gate: Tensor, up: Tensor):
    return act(gate) * up


@ref("act_mul(act, gate_up, packed='gate_up', dim=dim)", kernel="LAYOUT=GATE_UP FORM=PLAIN")
def packed_gate_first(act: Act, gate_up: Tensor, dim: Const):
    gate, up = gate_up.chunk(2, dim=dim)
    return act(gate) * up


@ref("act_mul(act, up_gate, packed='up_gate', dim=dim)", kernel="LAYOUT=UP_GATE FORM=PLAIN")
def packed_up_first(act: Act, up_gate: Tensor, dim: Const):
    up, gate = up_gate.chunk(2, dim=dim)
    return act(gate) * up


@ref("act_mul(act, gate_up, packed='interleaved')", kernel="LAYOUT=INTERLEAVED FORM=PLAIN")
def packed_interleaved(act: Act, gate_up: Tensor):
    return act(gate_up[..., ::2]) * gate_up[..., 1::2]


@ref("act_mul(gate, up, function='gelu_tanh')", kernel="LAYOUT=TWO_INPUTS FORM=PLAIN ACT=GELU_TANH")
def gelu_tanh_function(gate: Tensor, up: Tensor):
    return F.gelu(gate, approximate="tanh") * up


@ref("act_mul(gate, up, function='relu2')", kernel="LAYOUT=TWO_INPUTS FORM=PLAIN ACT=RELU2")
def squared_relu_function(gate: Tensor, up: Tensor):
    return F.relu(gate).pow(2) * up


@ref("act_mul(gate, up, function='sigmoid')", kernel="LAYOUT=TWO_INPUTS FORM=PLAIN ACT=SIGMOID")
def sigmoid_function(gate: Tensor, up: Tensor):
    return torch.sigmoid(gate) * up


@ref("act_mul(gate, up, function='swish')", kernel="LAYOUT=TWO_INPUTS FORM=SWISH ACT=SIGMOID")
def swish_function(gate: Tensor, up: Tensor):
    return gate * torch.sigmoid(gate) * up


@ref(
    "act_mul(gate, up, function='sloped', slope=slope)",
    kernel="LAYOUT=TWO_INPUTS FORM=SLOPED ACT=SIGMOID",
)
def sloped_function(gate: Tensor, up: Tensor, slope: Scalar):
    return gate * torch.sigmoid(gate * slope) * up


def clamped(gate, up, limit):
    return gate.clamp(max=limit), up.clamp(min=-limit, max=limit)


@ref("act_mul(act, gate, up, clamp='before', limit=limit)", kernel="LAYOUT=TWO_INPUTS FORM=CLAMPED")
def two_inputs_clamped(act: Act, gate: Tensor, up: Tensor, limit: Scalar):
    gate, up = clamped(gate, up, limit)
    return act(gate) * up


@ref(
    "act_mul(act, gate_up, packed='gate_up', clamp='before', limit=limit, dim=dim)",
    kernel="LAYOUT=GATE_UP FORM=CLAMPED",
)
def packed_gate_first_clamped(act: Act, gate_up: Tensor, limit: Scalar, dim: Const):
    gate, up = gate_up.chunk(2, dim=dim)
    gate, up = clamped(gate, up, limit)
    return act(gate) * up


@ref(
    "act_mul(act, gate, up, clamp='after', limit=limit)",
    kernel="LAYOUT=TWO_INPUTS FORM=CLAMPED_AFTER",
)
def two_inputs_clamped_after(act: Act, gate: Tensor, up: Tensor, limit: Scalar):
    return act(gate).clamp(max=limit) * up.clamp(min=-limit, max=limit)


@ref(
    "act_mul(act, gate_up, packed='gate_up', clamp='after', limit=limit, dim=dim)",
    kernel="LAYOUT=GATE_UP FORM=CLAMPED_AFTER",
)
def packed_gate_first_clamped_after(act: Act, gate_up: Tensor, limit: Scalar, dim: Const):
    gate, up = gate_up.chunk(2, dim=dim)
    return act(gate).clamp(max=limit) * up.clamp(min=-limit, max=limit)


def sloped_clamped(gate, up, limit, slope):
    gate, up = clamped(gate, up, limit)
    return (up + 1) * (gate * torch.sigmoid(gate * slope))


@ref(
    "act_mul(gate, up, function='sloped', clamp='before', limit=limit, slope=slope)",
    kernel="LAYOUT=TWO_INPUTS FORM=SLOPED_CLAMPED ACT=SIGMOID",
)
def two_inputs_sloped(gate: Tensor, up: Tensor, limit: Scalar, slope: Scalar):
    return sloped_clamped(gate, up, limit, slope)


@ref(
    "act_mul(gate_up, packed='gate_up', function='sloped', clamp='before', limit=limit, slope=slope, dim=dim)",
    kernel="LAYOUT=GATE_UP FORM=SLOPED_CLAMPED ACT=SIGMOID",
)
def packed_gate_first_sloped(gate_up: Tensor, limit: Scalar, slope: Scalar, dim: Const):
    gate, up = gate_up.chunk(2, dim=dim)
    return sloped_clamped(gate, up, limit, slope)


@ref(
    "act_mul(gate_up, packed='interleaved', function='sloped', clamp='before', limit=limit, slope=slope)",
    kernel="LAYOUT=INTERLEAVED FORM=SLOPED_CLAMPED ACT=SIGMOID",
)
def packed_interleaved_sloped(gate_up: Tensor, limit: Scalar, slope: Scalar):
    return sloped_clamped(gate_up[..., ::2], gate_up[..., 1::2], limit, slope)


@ref("act_mul(act, gate, up, cast='float32')", kernel="LAYOUT=TWO_INPUTS FORM=IN_FLOAT32")
def two_inputs_in_float32(act: Act, gate: Tensor, up: Tensor):
    return (act(gate.float()) * up.float()).to(gate.dtype)


@ref(
    "act_mul(act, gate_up, packed='gate_up', cast='float32', dim=dim)",
    kernel="LAYOUT=GATE_UP FORM=IN_FLOAT32",
)
def packed_gate_first_in_float32(act: Act, gate_up: Tensor, dim: Const):
    gate, up = gate_up.chunk(2, dim=dim)
    return (act(gate.float()) * up.float()).to(gate.dtype)


@refuse("F.glu is one operation of torch already, rounded once: there is nothing left to fuse")
def glu(x: Tensor):
    return F.glu(x)


@refuse("F.glu is one operation of torch already, rounded once: there is nothing left to fuse")
def glu_along(x: Tensor, dim: Const):
    return F.glu(x, dim)


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
    "sigmoid_function": [
        HEAD
        + """
    def forward(self, x):
        return self.a(x) * self.b(x).sigmoid()
""",
    ],
    "swish_function": [
        HEAD
        + """
    def forward(self, x):
        gate = self.a(x)
        return torch.sigmoid(gate) * gate * self.b(x)
"""
    ],
    "sloped_function": [
        HEAD
        + """
    def forward(self, x):
        gate = self.a(x)
        return gate * F.sigmoid(1.702 * gate) * self.b(x)
"""
    ],
    "two_inputs_clamped": [
        HEAD
        + """
        self.limit = 7.0

    def forward(self, x):
        gate = self.a(x).clamp(min=None, max=self.limit)
        up = torch.clamp(self.b(x), -self.limit, self.limit)
        return self.act_fn(gate) * up
"""
    ],
    "packed_gate_first_clamped": [
        HEAD
        + """
        self.limit = 7.0

    def forward(self, x):
        gate, up = self.a(x).chunk(2, dim=-1)
        gate = gate.clamp(max=self.limit)
        return F.silu(gate) * up.clamp(min=-self.limit, max=self.limit)
"""
    ],
    "two_inputs_clamped_after": [
        HEAD
        + """
        self.limit = 7.0

    def forward(self, x):
        gate = self.act_fn(self.a(x)).clamp(max=self.limit)
        return gate * self.b(x).clamp(min=-self.limit, max=self.limit)
"""
    ],
    "packed_gate_first_clamped_after": [
        HEAD
        + """
        self.limit = 7.0

    def forward(self, x):
        gate, up = self.a(x).chunk(2, dim=-1)
        up = up.clamp(min=-self.limit, max=self.limit)
        return self.act_fn(gate).clamp(max=self.limit) * up
"""
    ],
    "two_inputs_sloped": [
        HEAD
        + """
        self.limit, self.alpha = 7.0, 1.702

    def forward(self, x):
        gate = self.a(x).clamp(max=self.limit)
        up = self.b(x).clamp(min=-self.limit, max=self.limit)
        return (up + 1.0) * (gate * torch.sigmoid(gate * self.alpha))
"""
    ],
    "packed_gate_first_sloped": [
        HEAD
        + """
        self.limit, self.alpha = 7.0, 1.702

    def forward(self, x):
        gate, up = self.a(x).chunk(2, dim=-1)
        gate = gate.clamp(max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        glu = gate * torch.sigmoid(gate * self.alpha)
        return (up + 1.0) * glu
"""
    ],
    "packed_interleaved_sloped": [
        HEAD
        + """
        self.limit, self.alpha = 7.0, 1.702

    def forward(self, x):
        x = self.a(x)
        gate, up = x[..., ::2], x[..., 1::2]
        gate = gate.clamp(min=None, max=self.limit)
        up = up.clamp(min=-self.limit, max=self.limit)
        glu = gate * torch.sigmoid(gate * self.alpha)
        return (up + 1) * glu
"""
    ],
    "two_inputs_in_float32": [
        HEAD
        + """
    def forward(self, x):
        gate = self.a(x)
        up = self.b(x)
        return (self.act_fn(gate.float()) * up.float()).to(gate.dtype)
"""
    ],
    "packed_gate_first_in_float32": [
        HEAD
        + """
    def forward(self, x):
        gate, up = self.a(x).chunk(2, dim=-1)
        return (self.act_fn(gate.to(torch.float32)) * up.float()).to(gate.dtype)
"""
    ],
}
REJECT = [
    # one operation of torch, which rounds once
    HEAD
    + """
    def forward(self, x):
        return F.glu(self.a(x), dim=-1) + F.glu(self.b(x), dim=1)
""",
    # clamped, and not gated
    HEAD
    + """
        self.limit = 7.0

    def forward(self, x):
        gate = self.a(x).clamp(max=self.limit)
        up = self.b(x).clamp(min=-self.limit, max=self.limit)
        return self.b(self.act_fn(gate)) + self.b(up)
""",
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
