# Expressions that run while the module is loaded, before its last import: defaults, class
# bodies, decorators, plain lines.
# expect: either act_mul
import torch
import torch.nn.functional as F
from torch import nn

A, B = torch.ones(3), torch.full((3,), 2.0)
LINE = F.silu(A) * B


def default(x=F.silu(A) * B):
    return x


class Body:
    value = F.silu(B) * A
    table = [F.silu(t) * B for t in (A, B)]

    def method(self, x=F.silu(A) * A):
        return x + self.value


@(lambda f: (f, F.silu(B) * B))
def decorated():
    return 1


def early(x):
    return F.silu(x) * x


EARLY = early(A)
LAMBDA = (lambda x: F.silu(x) * x)(B)
if LINE.sum() > 0:
    import math
else:
    import cmath as math
import os


def cases(dtype):
    yield LINE, default(), Body().method(), Body.table, decorated[1], EARLY, LAMBDA, math.e, os.sep
