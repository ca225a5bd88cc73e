# SCALE and helper are other things here than in the model's file.
SCALE = 3.0


def helper(x):
    return x * SCALE


def scaled(x):
    return helper(x)
