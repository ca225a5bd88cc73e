# What is written has another name: an argument that is self, its dictionary, a property with a
# setter, __setattr__.
# expect: not-fused linears
import torch
import torch.nn.functional as F
from torch import nn

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.c = nn.Linear(8, 8)
        self.n = 0

    def forward(self, x, other=None, tensors=None):
        raise NotImplementedError


class ArgumentIsSelf(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        other.b = other.c
        return a, self.b(x)


class ArgumentWeight(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        other.b.weight.data[0] = 7
        return a, self.b(x)


class ArgumentIsInput(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        tensors[0][:] = 0
        return a, self.b(x)


class ArgumentInPlace(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        for t in tensors:
            t += 1
        return a, self.b(x)


class Dictionary(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        modules = self.__dict__["_modules"]
        modules["b"] = modules["c"]
        return a, self.b(x)


class Update(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        vars(self)["_modules"].update(b=self.c)
        return a, self.b(x)


class Setter(Pair):
    @property
    def mode(self):
        return self.n

    @mode.setter
    def mode(self, value):
        self.n = value
        self.b = self.c

    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        self.mode = 1
        return a, self.b(x)


class SetAttr(Pair):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "n" and value == 2:
            self.b = self.c

    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        self.n = 2
        return a, self.b(x)


class Getter(Pair):
    @property
    def next(self):
        self.b = self.c
        return 3

    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        n = self.next
        return a, self.b(x), n


class Operator(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        n = Doubler(x) + 1
        return a, self.b(x), n


class Item(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        n = Doubler(x)[0]
        return a, self.b(x), n


class Truth(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        n = not Doubler(x)
        return a, self.b(x), n


class Iterated(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        first, *_ = Doubler(x)
        return a, self.b(x), first


class Length(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        n = len(Doubler(x))
        return a, self.b(x), n


class Shown(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        text = f"{Doubler(x)}"
        return a, self.b(x), text


class Compared(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        same = Doubler(x) == 1
        return a, self.b(x), same


class Contained(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        same = 3 in Doubler(x)
        return a, self.b(x), same


class Attribute(Pair):
    def forward(self, x, other=None, tensors=None):
        a = self.a(x)
        n = Doubler(x).anything
        return a, self.b(x), n


class Doubler:
    """Every use of it writes to the tensor it holds."""

    def __init__(self, t):
        self.t = t

    def write(self, *args):
        self.t.mul_(2)
        return 1

    __add__ = __getitem__ = __len__ = __contains__ = __getattr__ = write

    def __bool__(self):
        return bool(self.write())

    def __eq__(self, other):
        return bool(self.write())

    def __iter__(self):
        self.write()
        return iter((1, 2))

    def __str__(self):
        return str(self.write())


KINDS = [
    ArgumentIsSelf, ArgumentWeight, ArgumentIsInput, ArgumentInPlace, Dictionary, Update, Setter, SetAttr, Getter,
    Operator, Item, Truth, Iterated, Length, Shown, Compared, Contained, Attribute,
]


def cases(dtype):
    with torch.no_grad():
        for kind in KINDS:
            block, x = kind().to(dtype), torch.randn(3, 8, dtype=dtype)
            yield block(x, block, [x]), x
