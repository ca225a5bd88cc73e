"""What a kernel moves, counted by the simulator, beside the least that it must move: each element of
its inputs read once, each of its results written once. For test_bytes.py and bench/roofline.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import simulated
import torch
from holding import as_tuple
from tfrewrite import kernels

SECTOR = 32  # bytes: what memory gives at least


@dataclass
class Traffic:
    least: int  # bytes
    requested: int  # bytes of all loads and stores of all threads
    unique: int  # of different addresses among them
    sectors_used: float  # bytes asked for, of the sectors that each request touches
    wide: float  # share of the bytes that come and go in accesses of 128 bits
    conflicts: int  # of banks of shared memory
    blocks: int
    threads: int

    @property
    def ratio(self) -> float:
        return self.requested / self.least


def least(tensors) -> int:
    """Bytes of the elements of these tensors; those of a repeated row once."""
    count = 0
    for t in tensors:
        if isinstance(t, torch.Tensor):
            count += t.element_size() * math.prod(
                n for n, s in zip(t.shape, t.stride(), strict=True) if s != 0
            )
    return count


def measure(op: str, variant: str, *arguments) -> Traffic:
    results = as_tuple(simulated.kernel(op, variant)(*arguments))
    assert kernels.last_path() == "cuda"
    report = simulated.report()
    c = report["counters"]
    requested = c["requested_read_bytes"] + c["requested_write_bytes"]
    return Traffic(
        least=least(arguments) + least(results),
        requested=requested,
        unique=c["unique_read_bytes"] + c["unique_write_bytes"],
        sectors_used=c["sector_bytes_used"] / (SECTOR * c["sectors"]),
        wide=c["requests_128"] / c["requests"],
        conflicts=c["bank_conflicts"],
        blocks=math.prod(report["grid"]),
        threads=math.prod(report["block"]),
    )
