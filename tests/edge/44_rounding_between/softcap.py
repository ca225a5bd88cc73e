# cap * tanh(x / cap): each of its operations rounds to the dtype of x. What is no cap, two caps, a cap that changes in between, a quotient
# that is read elsewhere too, a product with the reciprocal.
# expect: fused softcap Head.forward "tfr.softcap\(logits, self.config.cap\)"
# expect: fused softcap Float.forward "logits, self.cap, cast=.float32."
# expect: fused softcap Scaled.forward "logits, self.cap, scale=self.scale"
# expect: fused softcap scores "tfr.softcap\(weights, cap\)"
# expect: fused softcap Near.there_and_back "tfr.softcap\(x.float\(\), self.cap\)|cast=.float32."
# expect: not-fused softcap Near.two_caps
# expect: not-fused softcap Near.reciprocal
# expect: not-fused softcap Near.middle_used
# expect: not-fused softcap Near.cap_changes
# expect: not-fused softcap Near.the_other_way
# expect: not-fused softcap Near.whole
# expect: not-fused softcap Near.in_place
# expect: not-fused softcap Near.cast_between
# expect: either softcap Near.effects
import torch
import torch.nn.functional as F
from torch import nn


class Config:
    def __init__(self, cap):
        self.cap = cap


class Head(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.config = Config(cap)
        self.lm_head = nn.Linear(8, 33)

    def forward(self, x):
        logits = self.lm_head(x)
        if self.config.cap is not None:
            logits = logits / self.config.cap
            logits = torch.tanh(logits)
            logits = logits * self.config.cap
        return logits


class Float(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.cap = cap

    def forward(self, logits):
        logits = logits.float() / self.cap
        logits = torch.tanh(logits)
        return logits * self.cap


class Scaled(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.cap, self.scale = cap, 3.7

    def forward(self, logits):
        logits = logits * self.scale
        return torch.tanh(logits / self.cap) * self.cap


def scores(q, k, cap=None):
    weights = q @ k
    if cap is not None:
        weights = F.tanh(torch.div(weights, cap)) * cap
    return weights.softmax(-1)


class Near(nn.Module):
    def __init__(self, cap, other):
        super().__init__()
        self.cap, self.other = cap, other
        self.log = []

    def there_and_back(self, x):
        return (torch.tanh(x.float() / self.cap) * self.cap).to(x.dtype)

    def two_caps(self, x):
        return torch.tanh(x / self.cap) * self.other

    def reciprocal(self, x):
        return torch.tanh(x * (1 / self.cap)) * self.cap

    def middle_used(self, x):
        small = torch.tanh(x / self.cap)
        return small * self.cap, small

    def cap_changes(self, x):
        x = x / self.cap
        before, self.cap = self.cap, self.other
        x = torch.tanh(x) * self.cap
        self.cap = before
        return x

    def the_other_way(self, x):
        return torch.tanh(self.cap / x) * self.cap

    def whole(self, x):
        return torch.tanh(torch.div(x, self.cap, rounding_mode="floor")) * self.cap

    def in_place(self, x):
        x = x / self.cap
        x.tanh_()
        return x * self.cap

    def cast_between(self, x):
        return torch.tanh((x / self.cap).float()) * self.cap

    def effects(self, x):
        x = x / self.cap
        self.log.append(x.dtype)
        return torch.tanh(x) * self.cap

    def forward(self, x):
        for f in (self.there_and_back, self.two_caps, self.reciprocal, self.middle_used):
            yield f(x)
        for f in (self.cap_changes, self.the_other_way, self.whole, self.in_place):
            yield f(x)
        yield self.cast_between(x), self.effects(x), len(self.log)


def cases(dtype):
    x = torch.randn(3, 5, 8, dtype=dtype)
    logits = 20 * torch.randn(2, 33, dtype=dtype)
    bound = nn.Parameter(torch.tensor(2.5))
    for cap in (2.0, 3, -0.7, 1e-3, float("inf"), True, None):
        head = Head(cap).to(dtype)
        yield head(x)
        yield head(x.clone().requires_grad_())
    for cap in (2.0, 0, 0.0, "2", None, torch.tensor(1.5), torch.tensor([0.5]), bound):
        for kind in (Float, Scaled):
            block = kind(cap)
            yield lambda block=block: block(logits)
        yield lambda cap=cap: scores(logits.T, logits, cap)
    yield lambda: Scaled(2.0)(torch.arange(7))  # of whole numbers comes a float32
    yield Float(2.0)(torch.ones(0, 4, dtype=dtype))
    yield lambda: Float(2.0)(1.5)  # no tensor
    yield list(Near(2.0, 0.5)(logits))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield Head(2.0).to(dtype)(x), list(Near(2.0, 0.5)(logits))
