"""rms_norm: y = x / sqrt(mean(x^2) + eps) * weight over the last axis.

x: [..., D], any float dtype; weight: [D] or None; result: [..., D]. The mean and the root are float32. `order` says where the result is rounded
to x's dtype: that moves about a quarter of bfloat16 elements, so it is read from the source. Source: Zhang and Sennrich 2019, arXiv:1910.07467.
"""

import torch
from tfrewrite.rules import Param, Scalar, Tensor, op, ref

op(
    "rms_norm(Tensor x, Tensor? weight, float eps, *, str order, str root='rsqrt') -> Tensor",
    cpu="rms_norm.c",
    cuda="rms_norm.cu",
    specialize="x",
)


def normalize(x, eps):
    """float32 in, float32 out: x / rms(x). A `_norm` method may stand in its place, as `via`."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


@ref(
    "rms_norm(x, weight, eps, order='cast_weight')",
    kernel="ORDER=CAST_WEIGHT",
    fallback="weight * via(x.to(torch.float32)).to(x.dtype)",
)
def cast_then_weight(x: Tensor, weight: Param, eps: Scalar):
    return weight * normalize(x.to(torch.float32), eps).to(x.dtype)


@ref(
    "rms_norm(x, weight, eps, order='weight_cast')",
    kernel="ORDER=WEIGHT_CAST",
    fallback="(weight * via(x.to(torch.float32))).to(x.dtype)",
)
def weight_then_cast(x: Tensor, weight: Param, eps: Scalar):
    return (weight * normalize(x.to(torch.float32), eps)).to(x.dtype)


@ref(
    "rms_norm(x, weight, eps, order='weight32_cast')",
    kernel="ORDER=WEIGHT32_CAST",
    fallback="(weight.to(torch.float32) * via(x.to(torch.float32))).to(x.dtype)",
)
def weight_in_float32_then_cast(x: Tensor, weight: Param, eps: Scalar):
    return (weight.to(torch.float32) * normalize(x.to(torch.float32), eps)).to(x.dtype)


@ref(
    "rms_norm(x, weight, eps, order='one_plus_cast')",
    kernel="ORDER=ONE_PLUS_CAST",
    fallback="(via(x.to(torch.float32)) * (1.0 + weight.to(torch.float32))).to(x.dtype)",
)
def one_plus_weight_then_cast(x: Tensor, weight: Param, eps: Scalar):
    return (normalize(x.to(torch.float32), eps) * (1.0 + weight.to(torch.float32))).to(x.dtype)


@ref(
    "rms_norm(x, weight, eps, order='cast_one_plus')",
    kernel="ORDER=CAST_ONE_PLUS",
    fallback="via(x.to(torch.float32)).to(x.dtype) * (1.0 + weight)",
)
def cast_then_one_plus_weight(x: Tensor, weight: Param, eps: Scalar):
    return normalize(x.to(torch.float32), eps).to(x.dtype) * (1.0 + weight)


@ref("rms_norm(x, weight, eps, order='cast_by_weight')", kernel="ORDER=CAST_BY_WEIGHT")
def cast_by_weight_dtype(x: Tensor, weight: Param, eps: Scalar):
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + eps)
    if weight.dtype in [torch.float16, torch.bfloat16]:
        x = x.to(weight.dtype)
    return weight * x


@ref("rms_norm(x, weight, eps, order='product_cast_weight')", kernel="ORDER=CAST_WEIGHT")
def product_cast_then_weight(x: Tensor, weight: Param, eps: Scalar):
    root = torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + eps)
    return weight * (x * root).to(x.dtype)


@ref("rms_norm(x, weight, eps, order='no_cast')", kernel="ORDER=NO_CAST")
def weight_without_cast(x: Tensor, weight: Param, eps: Scalar):
    return weight * (x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + eps))


@ref(
    "rms_norm(x, None, eps, order='cast')",
    kernel="ORDER=CAST",
    fallback="via(x.to(torch.float32)).to(x.dtype)",
)
def no_weight(x: Tensor, eps: Scalar):
    return normalize(x.to(torch.float32), eps).to(x.dtype)


@ref("rms_norm(x, weight, eps, order='cast_weight', root='pow')", kernel="ORDER=CAST_WEIGHT")
def cast_then_weight_pow(x: Tensor, weight: Param, eps: Scalar):
    h = x.to(torch.float32)
    return weight * (h * torch.pow(h.pow(2).mean(-1, keepdim=True) + eps, -0.5)).to(x.dtype)


@ref("rms_norm(x, weight, eps, order='weight32_cast', root='pow')", kernel="ORDER=WEIGHT32_CAST")
def weight_in_float32_then_cast_pow(x: Tensor, weight: Param, eps: Scalar):
    h = x.to(torch.float32)
    normed = h * torch.pow(h.pow(2).mean(-1, keepdim=True) + eps, -0.5)
    return (normed * weight.to(torch.float32)).to(x.dtype)


@ref("rms_norm(x, None, eps, order='cast', root='pow')", kernel="ORDER=CAST")
def no_weight_pow(x: Tensor, eps: Scalar):
    h = x.to(torch.float32)
    return (h * torch.pow(h.pow(2).mean(-1, keepdim=True) + eps, -0.5)).to(x.dtype)


def normalize_pow(x, eps):
    """As `normalize`, in the spelling of Gemma 4."""
    return x * torch.pow(x.pow(2).mean(-1, keepdim=True) + eps, -0.5)


@ref(
    "rms_norm(x, None, eps, order='unrounded', root='pow')",
    kernel="ORDER=UNROUNDED",
    fallback="via(x.to(torch.float32))",
)
def no_weight_in_float32_pow(x: Tensor, eps: Scalar):
    """What follows (a weight under a condition of the instance) reads the float32 values."""
    return normalize_pow(x.to(torch.float32), eps)


@ref("rms_norm(x, None, eps, order='root_cast')", kernel="ORDER=ROOT_CAST")
def no_weight_root_cast(x: Tensor, eps: Scalar):
    return x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + eps).to(x.dtype)


@ref(
    "rms_norm(x, weight, eps, order='one_plus_in_dtype_cast')",
    kernel="ORDER=ONE_PLUS_IN_DTYPE_CAST",
    fallback="(via(x.to(torch.float32)) * (1.0 + weight).to(torch.float32)).to(x.dtype)",
)
def one_plus_in_its_dtype_then_cast(x: Tensor, weight: Param, eps: Scalar):
    return (normalize(x.to(torch.float32), eps) * (1.0 + weight).to(torch.float32)).to(x.dtype)


# Examples
HEAD = """
class N(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.variance_epsilon = eps
"""


def example(*lines):
    return HEAD + "\n    def forward(self, x):\n" + "".join(f"        {line}\n" for line in lines)


MEAN = "v = h.pow(2).mean(-1, keepdim=True)"
ROOT = "h = h * torch.rsqrt(v + self.variance_epsilon)"
POW = "h = h * torch.pow(v + self.variance_epsilon, -0.5)"
ACCEPT = {
    "cast_then_weight": [
        HEAD
        + """
    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)
""",
        HEAD
        + """
    def forward(self, x):
        h = x.float()
        return (h * (torch.mean(torch.square(h), dim=(-1,), keepdim=True) + self.variance_epsilon).rsqrt()).type_as(x) * self.weight
""",
    ],
    "weight_then_cast": [
        HEAD
        + """
    def forward(self, x):
        h = x.to(dtype=torch.float32)
        h = h * torch.rsqrt((h * h).mean(-1, True) + self.variance_epsilon)
        return (self.weight * h).to(x.dtype)
"""
    ],
    "one_plus_weight_then_cast": [
        HEAD
        + """
    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def forward(self, x):
        output = self._norm(x.float())
        output = output * (1.0 + self.weight.float())
        return output.type_as(x)
"""
    ],
    "cast_by_weight_dtype": [
        HEAD
        + """
    def forward(self, hidden_states):
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)

        # convert into half-precision if necessary
        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            hidden_states = hidden_states.to(self.weight.dtype)

        return self.weight * hidden_states
"""
    ],
    "weight_in_float32_then_cast": [
        example("h = x.float()", MEAN, ROOT, "return (self.weight.float() * h).to(x.dtype)")
    ],
    "cast_then_one_plus_weight": [
        example("h = x.float()", MEAN, ROOT, "return h.to(x.dtype) * (1 + self.weight)")
    ],
    "weight_without_cast": [
        example(
            "v = x.to(torch.float32).pow(2).mean(-1, keepdim=True)",
            "x = x * torch.rsqrt(v + self.variance_epsilon)",
            "return self.weight * x",
        )
    ],
    "product_cast_then_weight": [
        example(
            "v = x.to(torch.float32).pow(2).mean(dim=-1, keepdim=True)",
            "return (x * torch.rsqrt(v + self.variance_epsilon)).to(x.dtype) * self.weight",
        )
    ],
    "no_weight": [example("h = x.float()", MEAN, ROOT, "return h.type_as(x)")],
    "cast_then_weight_pow": [
        example("h = x.float()", MEAN, POW, "return self.weight * h.to(x.dtype)")
    ],
    "weight_in_float32_then_cast_pow": [
        example("h = x.float()", MEAN, POW, "return (h * self.weight.float()).type_as(x)")
    ],
    "no_weight_pow": [example("h = x.float()", MEAN, POW, "return h.to(x.dtype)")],
    "no_weight_in_float32_pow": [
        HEAD
        + """
    def _norm(self, x):
        return x * torch.pow(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon, -0.5)

    def forward(self, x):
        h = self._norm(x.float())
        if self.with_scale:
            h = h * self.weight.float()
        return h.type_as(x)
"""
    ],
    "no_weight_root_cast": [
        example(
            "v = x.float().square().mean(-1, keepdim=True)",
            "return x * torch.rsqrt(v + self.variance_epsilon).to(x.dtype)",
        )
    ],
    "one_plus_in_its_dtype_then_cast": [
        example("h = x.float()", MEAN, ROOT, "return (h * (1.0 + self.weight).float()).type_as(x)")
    ],
}
REJECT = [
    # the mean is taken off first: this is a layer norm
    HEAD
    + """
    def forward(self, x):
        h = x.float()
        h = h - h.mean(-1, keepdim=True)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)).to(x.dtype)
""",
    # another axis
    HEAD
    + """
    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(1, keepdim=True) + self.variance_epsilon)).to(x.dtype)
""",
    # without keepdim a square input still runs, with other numbers
    HEAD
    + """
    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1) + self.variance_epsilon)).to(x.dtype)
""",
    # another offset
    HEAD
    + """
    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (h * (2.0 + self.weight.float())).type_as(x)
""",
]
