# The reference LLaMA: rotation by complex numbers, ColumnParallelLinear by our own stand-ins, a
# norm with the product in a method, a cache written by slices.
# expect: fused rms_norm RefNorm.forward
# expect: fused add_rms_norm RefBlock.forward
# expect: refused rope apply_rotary_emb "complex numbers"
# expect: refused linears RefAttention.forward "exactly nn.Linear"
# expect: refused act_mul FeedForward.forward "runs between its parts"
# expect: refused linears FeedForward.forward "exactly nn.Linear"
import torch
import torch.nn.functional as F
from torch import nn


class ColumnParallelLinear(nn.Linear):
    """On one device: the whole of it."""

    def __init__(self, in_features, out_features, bias=True, gather_output=True):
        super().__init__(in_features, out_features, bias=bias)
        self.gather_output = gather_output


class RowParallelLinear(nn.Linear):
    def __init__(self, in_features, out_features, bias=True, input_is_parallel=False):
        super().__init__(in_features, out_features, bias=bias)
        self.input_is_parallel = input_is_parallel


class RefNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim).uniform_(0.5, 1.5))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, device=freqs.device, dtype=torch.float32)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)  # complex64


def reshape_for_broadcast(freqs_cis: torch.Tensor, x: torch.Tensor):
    ndim = x.ndim
    shape = [d if i == 1 or i == ndim - 1 else 1 for i, d in enumerate(x.shape)]
    return freqs_cis.view(*shape)


def apply_rotary_emb(xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = reshape_for_broadcast(freqs_cis, xq_)
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


class RefAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.wq = ColumnParallelLinear(dim, dim, bias=False, gather_output=False)
        self.wk = ColumnParallelLinear(dim, dim, bias=False, gather_output=False)
        self.wv = ColumnParallelLinear(dim, dim, bias=False, gather_output=False)
        self.wo = RowParallelLinear(dim, dim, bias=False, input_is_parallel=True)
        self.register_buffer("cache_k", torch.zeros(2, 16, n_heads, self.head_dim))
        self.register_buffer("cache_v", torch.zeros(2, 16, n_heads, self.head_dim))

    def forward(self, x: torch.Tensor, start_pos: int, freqs_cis: torch.Tensor):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)

        xq = xq.view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = xk.view(bsz, seqlen, self.n_heads, self.head_dim)
        xv = xv.view(bsz, seqlen, self.n_heads, self.head_dim)

        xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)

        self.cache_k = self.cache_k.to(xq)
        self.cache_v = self.cache_v.to(xq)
        self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
        keys = self.cache_k[:bsz, : start_pos + seqlen].transpose(1, 2)
        values = self.cache_v[:bsz, : start_pos + seqlen].transpose(1, 2)
        out = F.scaled_dot_product_attention(xq.transpose(1, 2), keys, values)
        return self.wo(out.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1 = ColumnParallelLinear(dim, hidden_dim, bias=False, gather_output=False)
        self.w2 = RowParallelLinear(hidden_dim, dim, bias=False, input_is_parallel=True)
        self.w3 = ColumnParallelLinear(dim, hidden_dim, bias=False, gather_output=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class RefBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = RefAttention(16, 2)
        self.feed_forward = FeedForward(16, 24)
        self.attention_norm = RefNorm(16)
        self.ffn_norm = RefNorm(16)

    def forward(self, x, start_pos, freqs_cis):
        h = x + self.attention(self.attention_norm(x), start_pos, freqs_cis)
        out = h + self.feed_forward(self.ffn_norm(h))
        return out


@torch.inference_mode()
def cases(dtype):
    block = RefBlock().to(dtype)
    freqs = precompute_freqs_cis(8, 16)
    x = torch.randn(2, 5, 16, dtype=dtype)
    yield block(x, 0, freqs[:5])
    yield block(x[:, :1], 5, freqs[5:6])
