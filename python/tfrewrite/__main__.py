"""python -m tfrewrite run [options] script.py args... | run -m module args... | verify FILE
[options]

Anything else is handed to the C program.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from types import ModuleType

from tfrewrite import hook, program


def rewriting_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rules", metavar="DIR", action="append", help="rule files of your own")
    parser.add_argument("--only", metavar="OP,..", help="only these ops")
    parser.add_argument("--skip", metavar="OP,..", help="all ops but these")
    parser.add_argument("--target", choices=("auto", "host", "cuda"))


def run(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tfrewrite run",
        description="Runs a script, unchanged, with modeling modules rewritten as it imports them.",
    )
    rewriting_options(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="report, but run the original modules"
    )
    parser.add_argument(
        "--report", action="store_true", help="list the modules on standard error at the end"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="...")
    options = parser.parse_args(words)
    hook.enable(options.rules, options.only, options.skip, options.target, options.dry_run)
    try:
        if options.module:
            sys.argv = [options.script, *options.args]
            runpy.run_module(options.script, run_name="__main__", alter_sys=True)
        else:
            _run_script(options.script, options.args)
    finally:
        _summary(options.report)
    return 0


def _run_script(path: str, args: list[str]) -> None:
    """As `python path args`: the script is __main__ to the end, so that pickle and multiprocessing
    find it.
    """
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"tfrewrite: {path}: {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.argv = [path, *args]
    if not getattr(sys.flags, "safe_path", False):  # else Python would not have put it there either
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _summary(long: bool) -> None:
    seen = list(hook.results.values())
    done = [r for r in seen if r.status == "rewritten"]
    if long:
        for r in seen:
            ops = ", ".join(sorted({e["op"] for e in r.fused}))
            print(f"tfrewrite: {r.name}: {r.status} {r.reason or ops}", file=sys.stderr)
    if not done and not hook.disabled():
        why = (
            "no modeling module was imported"
            if not seen
            else f"{seen[0].name}: {seen[0].status} {seen[0].reason}"
        )
        print(f"tfrewrite: NOTHING was rewritten: {why}", file=sys.stderr)


def main(words: list[str]) -> int:
    if words and words[0] == "run":
        return run(words[1:])
    if words and words[0] == "verify" and "--symbolic" not in words:
        from tfrewrite import verify

        return verify.main(words[1:])
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if words else 2
    try:
        found = program.find()
    except program.RewriteError as error:
        print(f"tfrewrite: {error}", file=sys.stderr)
        return 2
    os.execv(found, [found, *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
