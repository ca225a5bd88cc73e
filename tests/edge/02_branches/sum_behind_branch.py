# A decoder's sums: one before the branch of cross attention and one at its end, each with a norm
# behind it. Moved behind the branch and into it, every one is made as often as before.
# expect: fused add_layer_norm Decoder.forward x2
# expect: fused add_layer_norm EitherWay.forward
# expect: fused add_layer_norm Sparse.forward "keep_sum=False"
# expect: fused add_layer_norm Read.forward
# expect: fused add_layer_norm Checked.forward x2
# expect: refused add_layer_norm Caught.forward "branch"
# expect: text "if memory is not None:\n            x, residual = tfr\.add_layer_norm\(x, residual, self\.cross_norm\)"
# expect: text "# the MLP\n        x, residual = tfr\.add_layer_norm\(x, residual, self\.norm\)\n        return residual \+ self\.mlp\(x\)"
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(8, 8)
        self.cross = nn.Linear(8, 8)
        self.mlp = nn.Linear(8, 8)
        self.cross_norm = nn.LayerNorm(8)
        self.norm = nn.LayerNorm(8)


class Decoder(Layer):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x

        if memory is not None:
            residual = x
            x = self.cross_norm(x)
            x = self.cross(x) + memory.mean()
            x = torch.sigmoid(x)
            x = residual + x

        # the MLP
        residual = x
        x = self.norm(x)
        return residual + self.mlp(x)


class EitherWay(Layer):
    def forward(self, x, memory=None):
        residual = x
        if memory is not None:
            x = self.cross(x)
            x = residual + x
        else:
            x = self.attn(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + self.mlp(x)


# The branch does not read the first sum.
class Sparse(Layer):
    def forward(self, x, residual, memory=None):
        x = residual + x
        if memory is not None:
            x = self.cross(memory)
            x = residual + x
        return self.mlp(self.norm(x))


# The first sum is read by other code than a norm in the branch: it moves there all the same.
class Read(Layer):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            x = self.cross(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + x


# What raises in the branch does not come back to the sum.
class Checked(Layer):
    def forward(self, x, memory=None):
        residual = x
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            if len(memory) != len(residual):
                raise ValueError(f"{memory.shape} is not of {len(residual)} rows")
            residual = x
            x = self.cross_norm(x)
            x = self.cross(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + self.mlp(x)


# Or it does, with another operand than the sum had.
class Caught(Layer):
    def forward(self, x, memory=None):
        residual, seen = x.clone(), []
        x = self.attn(x)
        x = residual + x
        if memory is not None:
            try:
                if len(memory) != len(residual):
                    residual.mul_(2)
                    raise ValueError
            except ValueError:
                seen.append(1)
            x = self.cross_norm(x)
            x = residual + x
        residual = x
        x = self.norm(x)
        return residual + self.mlp(x), seen


def cases(dtype):
    x, memory = torch.randn(2, 3, 8, dtype=dtype), torch.randn(2, 3, 8, dtype=dtype)
    kinds = Decoder, EitherWay, Read, Checked, Caught
    for layer in (kind().to(dtype) for kind in kinds):
        yield layer(x)
        yield layer(x, memory)
        yield lambda layer=layer: layer(x, torch.cat([memory, memory])[:3])
    yield Sparse().to(dtype)(x, memory)
    yield Sparse().to(dtype)(x, memory, memory)
