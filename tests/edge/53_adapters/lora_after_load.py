# LoRA wrapped around q and v after the model exists, merged into a weight, disabled, removed:
# always what the modules say.
# expect: fused linears Attn.forward
import torch
import torch.nn.functional as F
from torch import nn

class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8)
        self.v_proj = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        return q, k, v


class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base_layer, self.enabled = base, True
        self.lora_A = nn.Linear(8, 2, bias=False)
        self.lora_B = nn.Linear(2, 8, bias=False)

    def forward(self, x):
        out = self.base_layer(x)
        return out + self.lora_B(self.lora_A(x)) * 2 if self.enabled else out


def cases(dtype):
    attn, x = Attn().to(dtype), torch.randn(2, 3, 8, dtype=dtype)
    yield attn(x)
    attn.q_proj, attn.v_proj = Lora(attn.q_proj).to(dtype), Lora(attn.v_proj).to(dtype)
    yield attn(x)
    attn.q_proj.enabled = False
    yield attn(x)
    base = attn.v_proj.base_layer
    base.weight.data += attn.v_proj.lora_B.weight.data @ attn.v_proj.lora_A.weight.data * 2
    attn.q_proj, attn.v_proj = attn.q_proj.base_layer, base
    yield attn(x)
    for p in attn.parameters():
        p.requires_grad_(False)
    attn.v_proj = Lora(attn.v_proj).to(dtype)
    for part in attn(x):
        yield part
    sum(part.float().sum() for part in attn(x)).backward()
    yield attn.v_proj.lora_A.weight.grad, attn.v_proj.lora_B.weight.grad, attn.k_proj.weight.grad
