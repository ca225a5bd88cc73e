# Another rotation under the same name.
# expect: not-fused rope


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return q * cos - q.flip(-1) * sin, k * cos - k.flip(-1) * sin
