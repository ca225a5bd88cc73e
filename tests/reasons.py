"""What a reason not to fuse may say: the table of docs/ERRORS.md, and the rule files' own sentences.

Knows the documents; runs nothing.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDS = re.compile(r"\b(would|must|nothing left to fuse)\b")
VAGUE = re.compile(
    r"\bunknown\b|\bsomething\b|needs .* has|different conditions|parts here\b", re.I
)


def _table() -> dict[str, re.Pattern]:
    text = (ROOT / "docs/ERRORS.md").read_text()
    section = text.split("## Why a block is not fused\n")[1].split("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    kinds = [kind for row in rows for kind in re.findall(r"`(.+?)`", row)]
    return {k: re.compile(".*".join(map(re.escape, k.split("...")))) for k in kinds}


def _refusals() -> set[str]:
    calls = (
        decorator
        for path in sorted((ROOT / "rewriter/rules").glob("*.py"))
        for node in ast.parse(path.read_text()).body
        for decorator in getattr(node, "decorator_list", ())
    )
    return {c.args[0].value for c in calls if isinstance(c, ast.Call) and c.func.id == "refuse"}


TABLE = _table()
REFUSALS = _refusals()


def kinds(reason: str) -> list[str]:
    """The rows of the table that a reason is of."""
    return [kind for kind, pattern in TABLE.items() if pattern.fullmatch(reason)]


def fault(reason: str) -> str | None:
    """What is wrong with a reason; None: it is a known one, and says what the code would need."""
    if reason not in REFUSALS and len(kinds(reason)) != 1:
        return f"{reason!r} is {len(kinds(reason))} rows of docs/ERRORS.md and no rule file's"
    if not NEEDS.search(reason):
        return f"{reason!r} does not say what the code would need"
    if vague := VAGUE.search(reason):
        return f"{reason!r} is vague: {vague[0]!r}"
    return None
