# Gives on what it imports.
from .norms import PackNorm, size_of

__all__ = ["PackNorm", "size_of"]
