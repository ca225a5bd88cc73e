# The last import shares its line with other statements, or stands in a multi-line string that
# is none.
# expect: either act_mul
TEXT = """
import nothing
from nothing import all
"""
import torch; VALUE = 3; from torch import nn; import torch.nn.functional as F; OTHER = VALUE * 2  # a line of many


class Mlp(nn.Module):
    def forward(self, gate, up):
        """
        import nothing
        """
        return F.silu(gate) * up


def cases(dtype):
    yield Mlp()(torch.randn(2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype)), VALUE, OTHER, TEXT
