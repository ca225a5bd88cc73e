"""add_rms_norm: the residual sum and its RMS norm, both used afterwards.

x, residual: [..., D]; norm: a module whose forward is one rms_norm. Results: (norm(s), s) with s = residual + x, rounded to their dtype before the
norm reads it. The order of the two operands is the source's.
"""

from tfrewrite.rules import Norm, Tensor, op, ref

op(
    "add_rms_norm(Tensor x, Tensor residual, Module norm) -> (Tensor, Tensor)",
    cpu="add_rms_norm.c",
    cuda="add_rms_norm.cu",
    specialize="x",
)


@ref("add_rms_norm(x, residual, norm)", kernel="")
def add_then_norm(x: Tensor, residual: Tensor, norm: Norm):
    s = residual + x
    return norm(s), s


# Examples
NORM = """
class N(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.attn, self.mlp = nn.Linear(size, size), nn.Linear(size, size)
        self.norm = N(size)
"""
ACCEPT = {
    "add_then_norm": [
        NORM
        + """
    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.attn(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.norm(hidden_states)
        return residual + self.mlp(hidden_states)
"""
    ]
}
REJECT = [
    # the norm comes first, the sum after it
    NORM
    + """
    def forward(self, hidden_states):
        return hidden_states + self.norm(self.attn(hidden_states))
""",
    # in place: whoever holds the layer's input would see another value
    NORM
    + """
    def forward(self, hidden_states):
        residual = hidden_states
        residual += self.attn(hidden_states)
        return residual + self.mlp(self.norm(residual))
""",
]
