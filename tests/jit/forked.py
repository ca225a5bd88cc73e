"""Functions run in forked processes: what they do to themselves (limits, mounts, another user,
faults of system calls) ends with them, and torch is imported once for all of them.
"""

import importlib
import os
import pickle
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIME_LIMIT = 150  # seconds; a process that hangs ends with SIGALRM
_WARNING = re.compile(r"Warning: (kernel .*|TFR_.*|no C compiler.*|the C compiler .*)")


class Forked:
    """`function(*arguments)` in a forked process with this environment; None removes a variable.

    wait() gives its result, once; `stderr` and `warnings` (jit's, in order) are there afterwards.
    """

    def __init__(
        self, function: Callable, *arguments: Any, **environment: str | os.PathLike | None
    ):
        self._files = [tempfile.TemporaryFile() for _ in range(3)]
        self.stderr, self.warnings = "", []
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                status = self._run(function, arguments, environment)
            finally:
                os._exit(status)

    def _run(self, function, arguments, environment) -> int:
        signal.alarm(TIME_LIMIT)
        importlib.reload(warnings)  # pytest collects them
        for number in (1, 2):
            os.dup2(self._files[number].fileno(), number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = os.fspath(value)
        try:
            pickle.dump(function(*arguments), self._files[0])
            self._files[0].flush()
            return 0
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> int:
        """Its exit status, or minus the signal that ended it."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._files[2].seek(0)
        self.stderr = self._files[2].read().decode(errors="replace")
        self.warnings = _WARNING.findall(self.stderr)
        return status

    def wait(self) -> Any:
        status = self.end()
        assert status == 0, f"the process ended with {status}:\n{self.stderr[-3000:]}"
        self._files[0].seek(0)
        return pickle.load(self._files[0])


def run(function: Callable, *arguments: Any, **environment: Any) -> tuple[Any, list[str]]:
    """Its result and jit's warnings."""
    process = Forked(function, *arguments, **environment)
    return process.wait(), process.warnings


def runs(pid: int) -> bool:
    """Whether a process that need not be our child still does anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def check_ends(pid: int) -> None:
    """It was killed, which takes its time."""
    for _ in range(2000):
        if not runs(pid):
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"process {pid} still runs")
