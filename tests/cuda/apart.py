"""Runs functions in processes of their own, so that nothing of one case reaches the next: neither an
opened driver, nor an environment variable that is read once, nor a crash.

`run` starts from a server that has imported torch and Transformers, but neither tfrewrite nor a
driver; `fork` from the process it is called in, in milliseconds. Both give the function's result and
the runtime's warnings, in order.
"""

import importlib
import multiprocessing
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "jit"))
forked = importlib.import_module("forked")

_WARNING = re.compile(r"Warning: (.*) \(function tfrewrite\)")
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "pytest",
        "torch",
        "transformers.modeling_utils",
        "transformers.generation.utils",
        "transformers.models.qwen3.configuration_qwen3",
    ]
)


class Failed(AssertionError):
    """The case raised, crashed or hung; the message has what it wrote."""


def run(case: Callable[..., Any], *arguments: Any, **environment: str) -> tuple[Any, list[str]]:
    """`case(*arguments)` in a new process with these environment variables."""
    here, there = _context.Pipe(duplex=False)
    process = _context.Process(target=_send, args=(there, case, arguments, environment))
    process.start()
    there.close()
    try:
        good, value = here.recv()
    except EOFError:
        good, value = False, "the process ended without an answer"
    process.join()
    if not good:
        raise Failed(f"{case.__name__}{arguments}: {value}")
    return value


def _send(there: Any, case: Callable[..., Any], arguments: Any, environment: dict[str, str]):
    os.environ.update(environment)
    try:
        there.send((True, fork(case, *arguments)))
    except BaseException as error:
        there.send((False, str(error)))


def fork(case: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
    """`case(*arguments)` in a fork of this process."""
    process = forked.Forked(case, *arguments)
    try:
        result = process.wait()
    except AssertionError as error:
        raise Failed(f"{case.__name__}{arguments}: {error}") from None
    return result, _WARNING.findall(process.stderr)
