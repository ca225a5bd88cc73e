"""softcap: cap * tanh(x / cap), which holds attention scores or logits within (-cap, cap).

x: any shape and float dtype; cap: a positive number. Result: as x, rounded after the quotient, after tanh and after the product; with
`cast` "float32" those three are float32 and the result is rounded once. Source: Gemma Team 2024, arXiv:2408.00118, section 2.
"""

import torch
from tfrewrite.rules import Scalar, Tensor, op, ref

op("softcap(Tensor x, float cap, *, str cast='') -> Tensor", cpu="softcap.c", cuda="softcap.cu")


def cap_values(x, cap):
    return cap * torch.tanh(x / cap)


@ref("softcap(x, cap)", kernel="CAST=OWN")
def in_its_dtype(x: Tensor, cap: Scalar):
    return cap_values(x, cap)


@ref("softcap(x, cap, cast='float32')", kernel="CAST=FLOAT32")
def in_float32(x: Tensor, cap: Scalar):
    return cap_values(x.to(torch.float32), cap).to(x.dtype)


# Examples
HEAD = """
class Head(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.cap = cap
"""
ACCEPT = {
    "in_its_dtype": [
        HEAD
        + """
    def forward(self, logits):
        logits = logits / self.cap
        logits = torch.tanh(logits)
        return logits * self.cap
""",
        """
def scores(x: torch.Tensor, cap: float):
    return 30.0 * (x / 30).tanh()
""",
    ],
    "in_float32": [
        HEAD
        + """
    def forward(self, logits):
        return (self.cap * torch.tanh(logits.float() / self.cap)).to(logits.dtype)
"""
    ],
}
REJECT = [
    # two caps
    HEAD
    + """
    def forward(self, logits, limit):
        return limit * torch.tanh(logits / self.cap)
""",
    # the quotient is needed elsewhere too
    HEAD
    + """
    def forward(self, logits):
        small = logits / self.cap
        return self.cap * torch.tanh(small), small
""",
]
