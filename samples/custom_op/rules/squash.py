"""squash: tanh(x * slope), which brings attention scores or logits within (-1, 1).

x: any shape and float dtype; slope: a number. Result: as x, rounded after the product and after tanh; with `cast` "float32" both are
float32 and the result is rounded once. Source: a sigmoid's gain, as in LeCun et al. 1998, "Efficient BackProp", section 4.4.
"""

import torch
from tfrewrite.rules import Scalar, Tensor, op, ref

op("squash(Tensor x, float slope, *, str cast='') -> Tensor", cpu="squash.c", cuda="squash.cu")


def squashed(x, slope):
    return torch.tanh(x * slope)


@ref("squash(x, slope)", kernel="CAST=OWN")
def in_its_dtype(x: Tensor, slope: Scalar):
    return squashed(x, slope)


@ref("squash(x, slope, cast='float32')", kernel="CAST=FLOAT32")
def in_float32(x: Tensor, slope: Scalar):
    return squashed(x.to(torch.float32), slope).to(x.dtype)


# Examples
HEAD = """
class Head(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope
"""
ACCEPT = {
    "in_its_dtype": [
        HEAD
        + """
    def forward(self, logits):
        logits = logits * self.slope
        logits = torch.tanh(logits)
        return logits
""",
        """
def scores(x: torch.Tensor, slope: float):
    return (x * 0.1).tanh()
""",
    ],
    "in_float32": [
        HEAD
        + """
    def forward(self, logits):
        return torch.tanh(logits.float() * self.slope).to(logits.dtype)
"""
    ],
}
REJECT = [
    # by another tensor
    HEAD
    + """
    def forward(self, logits, other):
        return torch.tanh(logits.exp() * other.softmax(-1))
""",
    # the product is needed elsewhere too
    HEAD
    + """
    def forward(self, logits):
        small = logits.float() * self.slope
        return torch.tanh(small).to(logits.dtype), small
""",
]
