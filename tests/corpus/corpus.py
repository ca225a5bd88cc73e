"""The program over all modeling files of the installed transformers, and its golden counts.

    python tests/corpus/corpus.py             show how the counts differ from golden_VERSION.json
    python tests/corpus/corpus.py --write     write the counts anew; review the diff

Knows nothing of pytest.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = 538  # in transformers 5.24.0


def binary() -> str:
    """The tfrewrite program under test: $TFR_BIN, else the one on PATH."""
    path = os.environ.get("TFR_BIN") or shutil.which("tfrewrite")
    if not path or not os.access(path, os.X_OK):
        raise FileNotFoundError(
            f"no tfrewrite program: TFR_BIN={os.environ.get('TFR_BIN')!r}, none on PATH"
        )
    return path


def version() -> str:
    return importlib.metadata.version("transformers")


def golden_path() -> Path:
    return HERE / f"golden_{version()}.json"


def models_dir() -> Path:
    return Path(importlib.util.find_spec("transformers").origin).parent / "models"


def modeling_files(folder: Path) -> list[str]:
    """Paths below `folder`, in order."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("modeling_*.py"))


def rewrite_tree(source: Path, out: Path) -> tuple[int, dict[str, dict], str]:
    """One run over a directory: exit status, report entry by path below `source`, standard
    error."""
    done = subprocess.run(
        [binary(), "--json", "-o", str(out), str(source)], capture_output=True, text=True
    )
    entries = {}
    if done.stdout.strip():
        for entry in json.loads(done.stdout)["files"]:
            entries[Path(entry["path"]).resolve().relative_to(source.resolve()).as_posix()] = entry
    return done.returncode, entries, done.stderr


def counts(entries: dict[str, dict]) -> dict[str, dict[str, int]]:
    """file -> op -> number of fused blocks; files in which nothing is fused are listed with
    none."""
    table = {}
    for path, entry in sorted(entries.items()):
        ops = Counter()
        for fused in entry["fused"]:
            ops[fused["op"]] += fused.get("count", 1)
        table[path] = dict(sorted(ops.items()))
    return table


def dump(table: dict) -> str:
    """JSON with one line per file."""
    return dump_rows(sorted(table.items()))


def dump_rows(rows) -> str:
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in rows]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def differences(golden: dict, observed: dict) -> list[str]:
    """Readable lines for every match lost or gained: `llama/modeling_llama.py: linears 2 -> 1
    (lost)`."""
    lines = []
    for path in sorted(set(golden) | set(observed)):
        if path not in golden or path not in observed:
            lines.append(f"{path}: file {'gained' if path in observed else 'lost'}")
            continue
        for op in sorted(set(golden[path]) | set(observed[path])):
            was, now = golden[path].get(op, 0), observed[path].get(op, 0)
            if was != now:
                lines.append(f"{path}: {op} {was} -> {now} ({'lost' if now < was else 'gained'})")
    if lines:
        was, now = (
            sum((Counter(ops) for ops in table.values()), Counter()) for table in (golden, observed)
        )
        total = [f"{op} {was[op]} -> {now[op]}" for op in sorted(set(was) | set(now))]
        lines.append("total: " + ", ".join(total))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write the golden counts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        status, entries, errors = rewrite_tree(models_dir(), Path(folder) / "models")
    if status:
        print(errors, file=sys.stderr)
        return status
    observed = counts(entries)
    golden = json.loads(golden_path().read_text()) if golden_path().exists() else {}
    lines = differences(golden, observed)
    if options.write:
        golden_path().write_text(dump(observed))
    print("\n".join(lines) or f"{golden_path().name} is up to date")
    return 1 if lines and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
