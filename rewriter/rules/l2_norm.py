"""l2_norm: x over the root of the sum of its squares along one axis, or of their mean.

x: any shape and float dtype; result: as x. `form` says where eps comes in and which operations give the root, as each rounds in a 16-bit dtype of
x: 'rsqrt', 'sqrt' and 'pow' round the squares, their sum and what follows; 'norm', 'norm_add' and 'normalize' only what follows
the root, since torch's norm adds in float32 and rounds once; 'rms_norm', torch's own, the result. 'mean_rsqrt' and 'mean_sqrt' are an RMS norm in x's own dtype, before its weight, and round
everything. cast='float32': all in float32, rounded at the end. Kernels take the last axis alone. Sources: Yang et al. 2024, arXiv:2412.06464 ('rsqrt', of queries and keys); Radford et al. 2021, arXiv:2103.00020 (embeddings).
"""

import torch
import torch.nn.functional as F
from tfrewrite.rules import Int, Scalar, Tensor, op, ref, refuse
from tfrewrite.rules.rms_norm import normalize

op(
    "l2_norm(Tensor x, *, str form, float eps=0, int dim=-1, str cast='') -> Tensor",
    cpu="l2_norm.c",
    cuda="l2_norm.cu",
    specialize="x",
)


@ref("l2_norm(x, form='rsqrt', eps=eps, dim=dim)", kernel="FORM=L2_RSQRT", fallback="via(x)")
def by_rsqrt(x: Tensor, eps: Scalar, dim: Int):
    return x * torch.rsqrt(x.pow(2).sum(dim, keepdim=True) + eps)


@ref("l2_norm(x, form='sqrt', eps=eps, dim=dim)", kernel="FORM=L2_SQRT", fallback="via(x)")
def by_sqrt(x: Tensor, eps: Scalar, dim: Int):
    return x / torch.sqrt(x.pow(2).sum(dim, keepdim=True) + eps)


def unit(x, eps):
    """x / |x|, for which a class may have a `_norm` method of its own: `via`."""
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + eps)


@ref(
    "l2_norm(x, form='rsqrt', eps=eps, cast='float32')",
    kernel="FORM=L2_RSQRT_IN_FLOAT32",
    fallback="via(x.to(torch.float32)).to(x.dtype)",
)
def by_rsqrt_in_float32(x: Tensor, eps: Scalar):
    return unit(x.to(torch.float32), eps).to(x.dtype)


def length(x):
    """The root alone, for which a file may have a function of its own: `inner`."""
    return x.pow(2).sum(-1, keepdim=True).pow(0.5)


@ref("l2_norm(x, form='mean_rsqrt', eps=eps)", kernel="FORM=L2_MEAN_RSQRT", fallback="via(x)")
def by_rsqrt_of_mean(x: Tensor, eps: Scalar):
    """What a norm whose weight or dtype varies has in common, too: there x is float32."""
    return normalize(x, eps)


@ref("l2_norm(x, form='mean_sqrt', eps=eps)", kernel="FORM=L2_MEAN_SQRT", fallback="via(x)")
def by_sqrt_of_mean(x: Tensor, eps: Scalar):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)


@ref("l2_norm(x, form='pow')", kernel="FORM=L2_POW", inner="length")
def by_pow(x: Tensor):
    return x / length(x)


@ref("l2_norm(x, form='norm')", kernel="FORM=L2_NORM")
def by_norm(x: Tensor):
    return x / x.norm(dim=-1, keepdim=True)


@ref("l2_norm(x, form='norm_add', eps=eps)", kernel="FORM=L2_NORM_ADD")
def by_norm_and_eps(x: Tensor, eps: Scalar):
    return x / (x.norm(dim=-1, keepdim=True) + eps)


@ref("l2_norm(x, form='normalize', eps=eps)", kernel="FORM=L2_NORMALIZE")
def by_norm_of_at_least_eps(x: Tensor, eps: Scalar):
    return x / x.norm(dim=-1, keepdim=True).clamp(min=eps)


@ref("l2_norm(x, form='rms_norm', eps=eps)", kernel="FORM=L2_MEAN_RSQRT_IN_FLOAT32")
def by_norm_of_torch(x: Tensor, eps: Scalar):
    """Without a weight torch.rms_norm rounds the result alone, on each of its ways."""
    return F.rms_norm(x, (x.shape[-1],), eps=eps)


@refuse(
    "over another axis than the last, or its input is written to in between; over dim=-1 at once it would be fused"
)
def of_another_axis(x: Tensor, dim: Int):
    return x / x.norm(dim=dim, keepdim=True)


@refuse(
    "over another axis than the last, or its input is written to in between; over dim=-1 at once it would be fused"
)
def of_another_axis_at_least_eps(x: Tensor, eps: Scalar, dim: Int):
    return x / x.norm(dim=dim, keepdim=True).clamp(min=eps)


@refuse(
    "the sum is clamped before its root, as for points of two numbers, where no kernel is faster: with x.norm(dim=-1, keepdim=True).clamp(min=eps) in its place it would be fused"
)
def of_at_least_eps_squared(x: Tensor, eps: Scalar):
    return x / torch.sqrt(x.pow(2).sum(-1, keepdim=True).clamp(min=eps))


@refuse(
    "the sum of squares is divided by a count that is computed, as where a mask leaves some out: it would have to be .mean(-1, keepdim=True), with eps added under the root"
)
def of_a_count(x: Tensor, count: Tensor, eps: Scalar, dim: Int):
    return x / (torch.sqrt(x.pow(2).sum(dim, keepdim=True) / count) + eps)


@refuse("the order of the norm is a number of the configuration; written as 2 it would be fused")
def of_some_order(x: Tensor, order: Scalar):
    return x / x.norm(order, dim=-1, keepdim=True)


# Examples
FUNCTION = """
def l2norm(x: torch.Tensor, dim: int = -1, eps: float = 1e-6):
    inv_norm = torch.rsqrt((x * x).sum(dim=dim, keepdim=True) + eps)
    return x * inv_norm


class M(nn.Module):
    def forward(self, x, y):
        x, y = [t.to(torch.float32) for t in (x, y)]
        return l2norm(x, dim=-1, eps=1e-6) @ l2norm(y, dim=-1, eps=1e-6)
"""


def example(*lines):
    return "\nclass M(nn.Module):\n    def forward(self, x):\n" + "".join(
        f"        {line}\n" for line in lines
    )


ACCEPT = {
    "by_rsqrt": [
        FUNCTION,
        example("h = x.float()", "return h * torch.rsqrt(h.square().sum(-1, keepdim=True) + 1e-6)"),
    ],
    "by_sqrt": [
        FUNCTION.replace("rsqrt", "sqrt").replace("x * inv_norm", "x / inv_norm"),
    ],
    "by_rsqrt_in_float32": [
        """
class M(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x)
"""
    ],
    "by_rsqrt_of_mean": [
        # groups under a condition, float32 under a condition, a weight with an offset
        """
class M(nn.Module):
    def _norm(self, x):
        if self.group_size is not None:
            x = x.reshape(*x.shape[:-1], -1, self.group_size)
        out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return out.flatten(-2) if self.group_size is not None else out
""",
        example(
            "h = x.float() if self.wide else x",
            "h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)",
            "return h.to(x.dtype) * (2.0 + self.weight)",
        ),
    ],
    "by_sqrt_of_mean": [
        example(
            "v = torch.mean(torch.square(x), axis=-1, keepdims=True)",
            "return x / torch.sqrt(v + 1e-6) * self.weight",
        )
    ],
    "by_pow": [
        """
def length_of(tensor):
    square = torch.pow(tensor, 2)
    return torch.pow(torch.sum(square, dim=-1, keepdim=True), 0.5)


class M(nn.Module):
    def forward(self, x):
        x = x.pooler_output
        return x / length_of(x)
""",
        example("return x / (x**2).sum(dim=-1, keepdim=True) ** 0.5"),
    ],
    "by_norm": [
        example("return x / x.norm(p=2, dim=-1, keepdim=True)"),
        example("return x / torch.norm(x, dim=(-1,), keepdim=True)"),
        example("return x / torch.linalg.norm(x, ord=2, dim=-1, keepdim=True)"),
    ],
    "by_norm_and_eps": [example("return x / (torch.linalg.norm(x, dim=-1, keepdim=True) + 1e-6)")],
    "by_norm_of_torch": [
        example("return F.rms_norm(x, (x.shape[-1],), eps=1e-5) * (1 + x.mean())"),
        example("return torch.rms_norm(x, [x.size(-1)], eps=1e-5)"),
    ],
    "by_norm_of_at_least_eps": [
        example("return F.normalize(x, dim=-1)"),
        example("return F.normalize(x, p=2, dim=-1, eps=1e-5)"),
        example("return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-8)"),
    ],
}
REJECT = [
    # clamped before the root
    example("return x / torch.sqrt(torch.sum(x**2, dim=-1, keepdim=True).clamp(min=1e-6))"),
    # the length of something else
    example("return x / (x + 1).norm(dim=-1, keepdim=True)"),
    # another norm, and one over two axes, which linalg takes for a matrix's
    example("return x / x.norm(p=1, dim=-1, keepdim=True)"),
    example("return x / torch.linalg.norm(x, ord=2, dim=(-2, -1), keepdim=True)"),
    # other axes
    example("return F.normalize(x)"),
    example("return x / x.norm(dim=1, keepdim=True)"),
    # the mean of something else, over another axis, or both at once under torch's two names
    example("return x * torch.rsqrt((x + 1).pow(2).mean(-1, keepdim=True) + 1e-6)"),
    example("return x * torch.rsqrt(x.pow(2).mean(axis=1, keepdim=True) + 1e-6)"),
    example("return x * torch.rsqrt(x.pow(2).mean(dim=-1, axis=-1, keepdim=True) + 1e-6)"),
    # over two axes, over a number of columns, with torch's own eps, with a weight
    example("return F.rms_norm(x, x.shape[-2:], eps=1e-5)"),
    example("return F.rms_norm(x, (64,), eps=1e-5)"),
    example("return F.rms_norm(x, (x.shape[-1],))"),
    example("return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)"),
    # eps outside of the root
    example("return x / (torch.sqrt(x.pow(2).mean(-1, keepdim=True)) + 1e-6)"),
    # without keepdim a square input still runs, with other numbers
    example("return x / x.norm(dim=-1)"),
    # an upper bound
    example("return x / x.norm(dim=-1, keepdim=True).clamp(max=1e-6)"),
    # the length is used again
    example("n = x.norm(dim=-1, keepdim=True)", "return x / n, n"),
    # a product of two attributes, of which nothing says that they are tensors
    example("return self.a / self.b"),
]
