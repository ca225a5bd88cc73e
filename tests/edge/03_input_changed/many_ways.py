# Every way to write to the input between the two projections.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.relu = nn.ReLU(inplace=True)
        self.kept = None


class Item(Pair):
    def forward(self, x):
        a = self.a(x)
        x[0] = 0
        b = self.b(x)
        return a, b


class ItemOfView(Pair):
    def forward(self, x):
        a = self.a(x)
        row = x[..., :4]
        row[..., 1] = 5
        b = self.b(x)
        return a, b


class ThroughView(Pair):
    def forward(self, x):
        y = x.view(-1, 8)
        a = self.a(x)
        y.add_(1)
        b = self.b(x)
        return a, b


class ThroughTranspose(Pair):
    def forward(self, x):
        a = self.a(x)
        x.transpose(0, 1)[0].zero_()
        b = self.b(x)
        return a, b


class ThroughUnbind(Pair):
    def forward(self, x):
        first, *_ = x.unbind(0)
        a = self.a(x)
        first.neg_()
        b = self.b(x)
        return a, b


class Augmented(Pair):
    def forward(self, x):
        a = self.a(x)
        x += 1
        b = self.b(x)
        return a, b


class AugmentedAlias(Pair):
    def forward(self, x):
        y = x
        a = self.a(x)
        y *= 3
        b = self.b(x)
        return a, b


class AugmentedItem(Pair):
    def forward(self, x):
        a = self.a(x)
        x[..., 0] -= 1
        b = self.b(x)
        return a, b


class FunctionInPlace(Pair):
    def forward(self, x):
        a = self.a(x)
        torch.relu_(x)
        b = self.b(x)
        return a, b


class FunctionalFlag(Pair):
    def forward(self, x):
        a = self.a(x)
        F.relu(x, inplace=True)
        b = self.b(x)
        return a, b


class FunctionalFlagPositional(Pair):
    def forward(self, x):
        a = self.a(x)
        F.relu(x, True)
        b = self.b(x)
        return a, b


class ModuleInPlace(Pair):
    def forward(self, x):
        a = self.a(x)
        self.relu(x)
        b = self.b(x)
        return a, b


class Out(Pair):
    def forward(self, x):
        a = self.a(x)
        torch.add(x, 1, out=x)
        b = self.b(x)
        return a, b


class Data(Pair):
    def forward(self, x):
        a = self.a(x)
        x.data = x.data * 2
        b = self.b(x)
        return a, b


class Detached(Pair):
    def forward(self, x):
        a = self.a(x)
        x.detach().fill_(1)
        b = self.b(x)
        return a, b


class Foreach(Pair):
    def forward(self, x):
        a = self.a(x)
        torch._foreach_mul_([x], 2)
        b = self.b(x)
        return a, b


class InList(Pair):
    def forward(self, x):
        held = [x]
        a = self.a(x)
        held[0].mul_(2)
        b = self.b(x)
        return a, b


class InDict(Pair):
    def forward(self, x):
        held = {"x": x}
        a = self.a(x)
        held["x"] += 1
        b = self.b(x)
        return a, b


class InLoop(Pair):
    def forward(self, x):
        a = self.a(x)
        for part in x:
            part.mul_(2)
        b = self.b(x)
        return a, b


class InLambda(Pair):
    def forward(self, x):
        change = lambda: x.mul_(2)
        a = self.a(x)
        change()
        b = self.b(x)
        return a, b


class InClosure(Pair):
    def forward(self, x):
        def change():
            nonlocal x
            x = x + 1

        a = self.a(x)
        change()
        b = self.b(x)
        return a, b


class KeptBefore(Pair):
    def forward(self, x):
        self.kept = x
        a = self.a(x)
        self.touch()
        b = self.b(x)
        return a, b

    def touch(self):
        self.kept.mul_(2)


class Helper(Pair):
    def forward(self, x):
        a = self.a(x)
        scale(x, 2)
        b = self.b(x)
        return a, b


class HelperUsed(Pair):
    def forward(self, x):
        a = self.a(x)
        n = scale(x, 2).sum()
        b = self.b(x)
        return a, b, n


class Comprehension(Pair):
    def forward(self, x):
        a = self.a(x)
        parts = [t.mul_(2) for t in x]
        b = self.b(x)
        return a, b, parts


class InCondition(Pair):
    def forward(self, x):
        a = self.a(x)
        if x.mul_(2).sum() > 1e9:
            a = a + 1
        b = self.b(x)
        return a, b


class InArgument(Pair):
    def forward(self, x):
        return self.a(x), x.mul_(2), self.b(x)


class InSameCall(Pair):
    def forward(self, x):
        return torch.stack([self.a(x), self.b(x.add_(1))])


class SetAttr(Pair):
    def forward(self, x):
        a = self.a(x)
        setattr(x, "data", x.data + 1)
        b = self.b(x)
        return a, b


class GetAttr(Pair):
    def forward(self, x):
        a = self.a(x)
        getattr(x, "mul_")(2)
        b = self.b(x)
        return a, b


class BoundMethod(Pair):
    def forward(self, x):
        change = x.mul_
        a = self.a(x)
        change(2)
        b = self.b(x)
        return a, b


class Numpy(Pair):
    def forward(self, x):
        view = x.view(torch.uint8).numpy()
        a = self.a(x)
        view[...] = 0
        b = self.b(x)
        return a, b


class Deleted(Pair):
    def forward(self, x):
        a = self.a(x)
        del x[0]
        b = self.b(x[0])
        return a, b


def scale(t, by):
    t.mul_(by)
    return t


WAYS = [
    Item, ItemOfView, ThroughView, ThroughTranspose, ThroughUnbind, Augmented, AugmentedAlias,
    AugmentedItem, FunctionInPlace, FunctionalFlag, FunctionalFlagPositional, ModuleInPlace, Out, Data, Detached,
    Foreach, InList, InDict, InLoop, InLambda, InClosure, KeptBefore, Helper, HelperUsed, Comprehension,
    InCondition, InArgument, InSameCall, SetAttr, GetAttr, BoundMethod, Numpy, Deleted,
]


def cases(dtype):
    for way in WAYS:
        block, x = way().to(dtype), torch.randn(2, 3, 8, dtype=dtype)
        yield lambda: block(x)
        yield x
