"""softcap: cap * tanh(x / cap), which holds logits or attention scores within (-cap, cap).

x: any shape and float dtype; cap, scale: numbers. Result: as x, rounded after each operation. cast='float32': x in float32 first, and the result
stays float32. scale: x is multiplied by it first, rounded as well. Source: Gemma Team 2024, arXiv:2408.00118, section 2.
"""

import torch
from tfrewrite.rules import Scalar, Tensor, op, ref, refuse

op(
    "softcap(Tensor x, float cap, *, str cast='', float scale=1) -> Tensor",
    cpu="softcap.c",
    cuda="softcap.cu",
)


def capped(x, cap):
    return torch.tanh(x / cap) * cap


@ref("softcap(x, cap)", kernel="FORM=PLAIN")
def in_its_dtype(x: Tensor, cap: Scalar):
    return capped(x, cap)


@ref("softcap(x, cap, scale=scale)", kernel="FORM=SCALED")
def scaled(x: Tensor, cap: Scalar, scale: Scalar):
    return capped(x * scale, cap)


@ref("softcap(x, cap, cast='float32')", kernel="FORM=IN_FLOAT32")
def in_float32(x: Tensor, cap: Scalar):
    return capped(x.to(torch.float32), cap)


@refuse(
    "the cap is a tensor or computed here; it must be a number: an attribute, an argument or a literal"
)
def by_a_tensor(x: Tensor, cap: Tensor):
    return capped(x, cap)


# Examples
HEAD = """
class M(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.cap, self.scale = config.cap, config.scale
        self.lm_head = nn.Linear(8, 16)

    def forward(self, x):
        logits = self.lm_head(x)
"""
ACCEPT = {
    "in_its_dtype": [
        HEAD
        + """
        if self.config.cap is not None:
            logits = logits / self.config.cap
            logits = torch.tanh(logits)
            logits = logits * self.config.cap
        return logits
""",
        HEAD
        + """
        return self.cap * (logits / self.cap).tanh()
""",
        """
def scores(q, k, cap=None):
    weights = torch.matmul(q, k.transpose(2, 3))
    if cap is not None:
        weights = F.tanh(torch.div(weights, cap)) * cap
    return weights
""",
    ],
    "scaled": [
        HEAD
        + """
        logits = logits * self.scale
        logits = torch.tanh(logits / self.cap)
        return logits * self.cap
"""
    ],
    "in_float32": [
        HEAD
        + """
        logits = logits.float() / self.cap
        return self.cap * torch.tanh(logits)
"""
    ],
}
REJECT = [
    # two caps
    HEAD
    + """
        return self.scale * torch.tanh(logits / self.cap)
""",
    # times the reciprocal rounds otherwise
    HEAD
    + """
        return self.cap * torch.tanh(logits * (1 / self.cap))
""",
    # the quotient is read elsewhere too
    HEAD
    + """
        small = logits / self.cap
        return self.cap * torch.tanh(small), small
""",
    # one cap may be another by then
    HEAD
    + """
        logits = logits / self.cap
        self.cap = self.scale
        return torch.tanh(logits) * self.cap
""",
    # the quotient of the other way round
    HEAD
    + """
        return torch.tanh(self.cap / logits) * self.cap
""",
    # a cap that is a tensor
    HEAD
    + """
        cap = logits.std()
        return torch.tanh(logits / cap) * cap
""",
    # rounded to whole numbers
    HEAD
    + """
        return torch.tanh(torch.div(logits, self.cap, rounding_mode="floor")) * self.cap
""",
]
