# Two helpers that look alike from outside; one of them counts its calls.
calls = []


def plain(x):
    return x * 0.5


def counting(x):
    calls.append(x.shape[-1])
    return x * 0.5


def shifting(x):
    return x.add_(1)
