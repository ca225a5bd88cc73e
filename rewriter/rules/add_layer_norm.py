"""add_layer_norm: the residual sum and its layer norm; `keep_sum=False`: the norm alone, of a sum that nothing else reads.

x, residual: [..., D], of one shape or repeating along the leading dimensions; norm: an nn.LayerNorm over D, with or without weight and bias. Results:
norm(s) and s = residual + x, rounded to their dtype before the norm reads it. The order of the two operands is the source's. Mean and variance are
float32's, and the norm rounds once, to the dtype of s, behind the bias (aten's native_layer_norm, CPU and CUDA).
"""

from tfrewrite.rules import LayerNorm, Tensor, op, ref

op(
    "add_layer_norm(Tensor x, Tensor residual, Module norm, *, bool keep_sum=True) -> (Tensor, Tensor)",
    cpu="add_layer_norm.c",
    cuda="add_layer_norm.cu",
    specialize="x",
)


@ref("add_layer_norm(x, residual, norm)", kernel="RESULTS=BOTH")
def add_then_norm(x: Tensor, residual: Tensor, norm: LayerNorm):
    s = residual + x
    return norm(s), s


@ref("add_layer_norm(x, residual, norm, keep_sum=False)", kernel="RESULTS=NORM")
def norm_of_sum(x: Tensor, residual: Tensor, norm: LayerNorm):
    return norm(residual + x)


# Examples
LAYER = """
class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.attn, self.mlp = nn.Linear(size, size), nn.Linear(size, size)
        self.norm = nn.LayerNorm(size, eps=1e-6)
"""
ACCEPT = {
    "add_then_norm": [
        LAYER
        + """
    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.attn(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.norm(hidden_states)
        return residual + self.mlp(hidden_states)
"""
    ],
    "norm_of_sum": [
        LAYER
        + """
    def forward(self, hidden_states, input_tensor):
        hidden_states = self.attn(hidden_states)
        return self.norm(hidden_states + input_tensor)
""",
        LAYER
        + """
    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.attn(hidden_states)
        hidden_states = residual + hidden_states
        hidden_states = self.norm(hidden_states)
        return hidden_states
""",
    ],
}
REJECT = [
    # the norm comes first, the sum after it
    LAYER
    + """
    def forward(self, hidden_states):
        return hidden_states + self.norm(self.attn(hidden_states))
""",
    # in place: whoever holds the layer's input would see another value
    LAYER
    + """
    def forward(self, hidden_states):
        residual = hidden_states
        residual += self.attn(hidden_states)
        return residual + self.mlp(self.norm(residual))
""",
    # a norm of another class may be anything
    """
class Mine(nn.LayerNorm):
    pass


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = Mine(size)

    def forward(self, hidden_states, residual):
        return self.norm(residual + hidden_states)
""",
]
