# Every import is inside something: the line that is added must run on every path, and at the
# top level.
# expect: either act_mul Mlp.forward
try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise
finally:
    pass

if not hasattr(torch, "no_such_thing"):
    import os
else:
    import no_such_package


class Mlp(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up


if __name__ == "__main__":
    import sys

    sys.exit(1)


def cases(dtype):
    yield Mlp()(torch.randn(2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype))
    yield os.sep
