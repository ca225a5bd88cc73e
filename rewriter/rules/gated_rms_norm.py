"""gated_rms_norm: an RMS norm and a gate, norm(x) * act(gate) or norm(x * act(gate)).

x, gate: [..., D], any float dtypes; weight: [D]; result: [..., D]. The gate is float32 before its activation, and so are the mean and the root.
The norm goes over the last axis, or over each of its groups: `size` elements each, or `groups` of them. What `order` says of rounding is as in
rms_norm.py; after norm(x) * act(gate) it is rounded once more, to x's dtype. Sources: Gu and Dao 2024, arXiv:2405.21060 (gate before norm, groups);
Yang et al. 2024, arXiv:2412.06464 (norm before gate).
"""

import torch
from tfrewrite.rules import Act, Int, Param, Scalar, Tensor, op, ref
from tfrewrite.rules.rms_norm import normalize

op(
    "gated_rms_norm(Tensor x, Tensor? gate, Module act, Tensor weight, float eps, int? size, *, str order, int norm_first=-1) -> Tensor",
    cpu="gated_rms_norm.c",
    cuda="gated_rms_norm.cu",
    specialize="x",
)


@ref(
    "gated_rms_norm(x, gate, act, weight, eps, order='cast_weight_gate')",
    kernel="ORDER=CAST_WEIGHT FORM=NORM_GATE",
)
def cast_weight_then_gate(x: Tensor, gate: Tensor, act: Act, weight: Param, eps: Scalar):
    normed = weight * normalize(x.to(torch.float32), eps).to(x.dtype)
    return (normed * act(gate.to(torch.float32))).to(x.dtype)


@ref(
    "gated_rms_norm(x, gate, act, weight, eps, order='weight32_gate_cast')",
    kernel="ORDER=WEIGHT32_CAST FORM=NORM_GATE",
)
def weight_in_float32_then_gate(x: Tensor, gate: Tensor, act: Act, weight: Param, eps: Scalar):
    normed = weight.to(torch.float32) * normalize(x.to(torch.float32), eps)
    return (normed * act(gate.to(torch.float32))).to(x.dtype)


@ref(
    "gated_rms_norm(x, gate, act, weight, eps, order='gate_cast_weight')",
    kernel="ORDER=CAST_WEIGHT FORM=GATE_NORM",
)
def gate_then_norm(x: Tensor, gate: Tensor, act: Act, weight: Param, eps: Scalar):
    h = x.to(torch.float32)
    if gate is not None:
        h = h * act(gate.to(torch.float32))
    return weight * normalize(h, eps).to(x.dtype)


@ref(
    "gated_rms_norm(x, gate, act, weight, eps, size, order='gate_cast_weight')",
    kernel="ORDER=CAST_WEIGHT FORM=GATE_GROUPS",
)
def gate_then_norm_of_groups(
    x: Tensor, gate: Tensor, act: Act, weight: Param, eps: Scalar, size: Int
):
    h = x.to(torch.float32)
    if gate is not None:
        h = h * act(gate.to(torch.float32))
    *lead, last = h.shape
    count = last // size
    h = normalize(h.view(*lead, count, size), eps)
    return weight * h.view(*lead, count * size).to(x.dtype)


@ref(
    "gated_rms_norm(x, gate, act, weight, eps, groups, order='weight32_cast', norm_first=norm_first)",
    kernel="ORDER=WEIGHT32_CAST FORM=EITHER_GROUPS",
)
def groups_of_rows_gated_before_or_after(
    x: Tensor, gate: Tensor, act: Act, weight: Param, eps: Scalar, groups: Int, norm_first: Int
):
    h = x
    if not norm_first and gate is not None:
        h = h * act(gate.to(torch.float32))
    if len(h.shape) == 3:
        batch, length, width = h.shape
    else:
        batch, width = h.shape
        length = 1
    h = normalize(h.to(torch.float32).view(batch, length, groups, int(width // groups)), eps)
    h = (weight.view(groups, int(width // groups)) * h).view(batch, length, width)
    if x.ndim == 2:
        h = h.squeeze(1)
    if norm_first and gate is not None:
        h = h * act(gate.to(torch.float32))
    return h.to(x.dtype)


# Examples
HEAD = """
from transformers.activations import ACT2FN


class N(nn.Module):
    def __init__(self, size, group_size=4, n_groups=2, norm_before_gate=True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = 1e-6
        self.group_size = group_size
        self.n_groups = n_groups
        self.norm_before_gate = norm_before_gate
        self.activation = "silu"
"""


def example(signature, *lines):
    body = "".join(f"        {line}\n" for line in lines)
    return HEAD + f"\n    def forward(self, {signature}):\n" + body


MEAN = "v = h.pow(2).mean(-1, keepdim=True)"
ROOT = "h = h * torch.rsqrt(v + self.eps)"
GATE = "h = h * F.silu(gate.to(torch.float32))"
IF_GATE = ("if gate is not None:", "    " + GATE)
GROUPS = (
    "*prefix, last = h.shape",
    "count = last // self.group_size",
    "h = h.view(*prefix, count, self.group_size)",
)
ACCEPT = {
    "cast_weight_then_gate": [
        example(
            "x, gate",
            "h = x.float()",
            MEAN,
            ROOT,
            "h = self.weight * h.to(x.dtype)",
            "h = h * ACT2FN[self.activation](gate.to(torch.float32))",
            "return h.to(x.dtype)",
        ),
        example(
            "x, gate",
            "h = x.float()",
            MEAN,
            ROOT,
            "return (self.weight * h.to(x.dtype) * F.silu(gate.float())).type_as(x)",
        ),
    ],
    "weight_in_float32_then_gate": [
        example(
            "x, gate=None",
            "h = x.float()",
            MEAN,
            ROOT,
            "h = self.weight.to(torch.float32) * h",
            "return (h * torch.sigmoid(gate.to(torch.float32))).to(x.dtype)",
        )
    ],
    "gate_then_norm": [
        example(
            "x, gate=None",
            "h = x.to(torch.float32)",
            *IF_GATE,
            MEAN,
            ROOT,
            "return self.weight * h.to(x.dtype)",
        )
    ],
    "gate_then_norm_of_groups": [
        example(
            "x, gate=None",
            "dtype = x.dtype",
            "h = x.to(torch.float32)",
            *IF_GATE,
            *GROUPS,
            MEAN,
            ROOT,
            "h = h.view(*prefix, count * self.group_size)",
            "return self.weight * h.to(dtype)",
        )
    ],
    "groups_of_rows_gated_before_or_after": [
        example(
            "x, gate=None",
            "dtype, ndim = x.dtype, x.ndim",
            "if not self.norm_before_gate and gate is not None:",
            "    x = x * F.silu(gate.to(torch.float32))",
            "if len(x.shape) == 3:",
            "    b, s, d = x.shape",
            "else:",
            "    b, d = x.shape",
            "    s = 1",
            "h = x.to(torch.float32)",
            "h = h.view(b, s, self.n_groups, int(d // self.n_groups))",
            MEAN,
            ROOT,
            "h = self.weight.view(self.n_groups, int(d // self.n_groups)) * h",
            "h = h.view(b, s, d)",
            "if ndim == 2:",
            "    h = h.squeeze(1)",
            "if self.norm_before_gate and gate is not None:",
            "    h = h * F.silu(gate.to(torch.float32))",
            "return h.to(dtype)",
        )
    ],
}
REJECT = [
    # the gate is not made float32: its activation rounds
    example(
        "x, gate",
        "h = x.float()",
        MEAN,
        ROOT,
        "return (self.weight.to(torch.float32) * h * F.silu(gate)).to(x.dtype)",
    ),
    # the gate is added
    example(
        "x, gate",
        "h = x.float()",
        MEAN,
        ROOT,
        "return (self.weight.float() * h + F.silu(gate.float())).to(x.dtype)",
    ),
    # without a gate, another branch than "as it is"
    example(
        "x, gate=None",
        "h = x.to(torch.float32)",
        *IF_GATE,
        "else:",
        "    h = h * 2.0",
        MEAN,
        ROOT,
        "return self.weight * h.to(x.dtype)",
    ),
    # groups of another axis
    example(
        "x, gate=None",
        "h = x.to(torch.float32)",
        *IF_GATE,
        "*prefix, last = h.shape",
        "count = last // self.group_size",
        "h = h.view(*prefix, self.group_size, count)",
        MEAN,
        ROOT,
        "return self.weight * h.view(*prefix, count * self.group_size).to(x.dtype)",
    ),
]
