"""How much of candidates_VERSION.json the program fuses, and why not the rest.

python tests/corpus/coverage.py                  the table
python tests/corpus/coverage.py --list FAMILY    what is not fused, each with its reason
python tests/corpus/coverage.py --write          record the figures; review the diff
python tests/corpus/coverage.py --markdown       docs/COVERAGE.md to standard output
python tests/corpus/coverage.py --versions DIR.. counts of other versions (unpacked wheels)
"""

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import candidates
import corpus

SILENT = "silent"

# A class that is a norm; the rest are norms written out in something larger, functions, and
# l2 normalisations without a weight.
NORM_KINDS = ("rms", "rms:no_weight", "l2")

# column -> the family it reads, and what of its kinds; a column counts sites, or classes all of
# whose sites are fused.
COLUMNS = {
    "rms_norm": ("rms_norm", lambda kind: kind in NORM_KINDS, "classes"),
    "inline_norm": ("rms_norm", lambda kind: kind not in NORM_KINDS, "sites"),
    "gated_norm": ("gated_norm", lambda kind: True, "classes"),
    "glu": ("glu", lambda kind: kind != "moe", "sites"),
    "glu_moe": ("glu", lambda kind: kind == "moe", "sites"),
    "projections": ("projections", lambda kind: kind.startswith("attention"), "classes"),
    "projections_kv": ("projections", lambda kind: kind.startswith("kv"), "classes"),
    "projections_other": ("projections", lambda kind: kind.startswith("other"), "classes"),
    "rope": ("rope", lambda kind: True, "sites"),
    "residual_rms": ("residual", lambda kind: kind == "rms", "classes"),
    "residual_layer": ("residual", lambda kind: kind == "layer", "classes"),
    "softcap": ("softcap", lambda kind: True, "sites"),
}


def serves(op, family):
    """May a call of `op` be what becomes of a candidate of `family`?"""
    if family == "gated_norm":
        return "norm" in op and "gated" in op
    if family == "rms_norm":
        return "norm" in op and not op.startswith(("add_", "qk_"))
    if family == "glu":
        return "act" in op or "glu" in op
    if family == "projections":
        return op.startswith(("linears", "qkv", "linear_")) or op == "linears"
    if family in ("rope", "softcap"):
        return family in op
    return op.startswith("add_") and "norm" in op


def near(line, entry, first, last):
    return entry[first] - 1 <= line <= entry[last] + 1


# The columns of the headline: an architecture is whole when all its candidates of these are fused.
HEADLINE = ("rms_norm", "gated_norm", "glu", "projections")


def calls_in(text):
    """(function, class it is called in or "", first line, last line) of each call by a plain name."""
    return [
        (
            call.func.id,
            top.name if isinstance(top, ast.ClassDef) else "",
            call.lineno,
            call.end_lineno,
        )
        for top in ast.parse(text).body
        for call in ast.walk(top)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    ]


def through_calls(out, entry, calls):
    """Norms in functions: one is fused where all calls of it are, and what a class computes by
    calling a function is what became of it there.
    """
    norms = [f for f in entry["fused"] if serves(f["op"], "rms_norm")]
    of_function = {k[3].removeprefix("function:"): k for k in out if k[3].startswith("function:")}
    for name, key in of_function.items():
        fused = [
            any(f["class"] == cls and near(line, f, "line", "end_line") for f in norms)
            for function, cls, line, _ in calls
            if function == name
        ]
        if fused and all(fused):
            out[key] = None
    for (cls, family, line, kind), reason in list(out.items()):
        if family == "rms_norm" and kind.startswith("inline:") and reason:
            for function, where, first, last in calls:
                if where == cls and function in of_function and first <= line <= last:
                    out[cls, family, line, kind] = out[of_function[function]]


def through_methods(out, entry, module):
    """A norm that a site computes by calling a method of its class is what became of it there."""
    for (cls, family, line, kind), reason in list(out.items()):
        if family != "rms_norm" or reason != SILENT or not kind.startswith("inline"):
            continue
        body = next((n for n in module.body if getattr(n, "name", None) == cls), module)
        called = {
            n.func.attr
            for n in ast.walk(body)
            if isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and ast.unparse(n.func.value) == "self"
            and n.lineno <= line <= n.end_lineno
        }
        norms = [f for f in entry["fused"] if serves(f["op"], family) and f["class"] == cls]
        if any(f["function"] in called for f in norms):
            out[cls, family, line, kind] = None


def through_helpers(out, entry, module):
    """What a site does by calling a function is fused where a function that that one calls is, and
    nothing in either was refused.
    """
    functions = {n.name: n for n in module.body if isinstance(n, ast.FunctionDef)}
    refused = {r["function"] for r in entry["refused"] if not r["class"]}
    for (cls, family, line, kind), reason in list(out.items()):
        if reason != SILENT or kind not in functions or kind in refused:
            continue
        called = {
            n.func.id
            for n in ast.walk(functions[kind])
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        fused = [f for f in entry["fused"] if serves(f["op"], family) and not f["class"]]
        if any(f["function"] in called - refused for f in fused):
            out[cls, family, line, kind] = None


def judge(classes, entry, calls=()):
    """(class, family, line, kind) -> None if fused, else the reason. `calls` as calls_in has them."""
    out = {}
    for cls, families in classes.items():
        for family, rows in families.items():
            of_family = [f for f in entry["fused"] if serves(f["op"], family)]
            fused = [f for f in of_family if f["class"] == cls]
            beside = [f for f in of_family if not f["class"]]
            helpers = {f["function"] for f in beside}
            refused = [r for r in entry["refused"] if r["class"] == cls and serves(r["op"], family)]
            for line, kind in rows:
                reason = judge_one(family, line, kind, rows, fused, refused)
                here = any(f["line"] <= line <= f["end_line"] for f in beside)
                out[cls, family, line, kind] = None if here or kind in helpers else reason
    through_calls(out, entry, calls)
    return out


def judge_one(family, line, kind, rows, fused, refused):
    whole = family in ("rms_norm", "gated_norm") and not kind.startswith(("inline", "function"))
    if any(whole or near(line, f, "line", "end_line") for f in fused):
        return None
    for r in refused:
        if whole or near(line, r, "block_line", "block_end_line") or near(line, r, "line", "line"):
            return r["reason"]
    # Reported in a helper that the candidate's function calls: all sites of the class are.
    helped = [f for f in fused if not any(near(row[0], f, "line", "end_line") for row in rows)]
    if family == "rope" and helped:
        return None
    if family in ("projections", "glu") and any(f["function"] != "forward" for f in helped):
        return None
    return refused[0]["reason"] if refused and len(rows) == 1 else SILENT


def measure(table, entries):
    """column -> (file, class) -> list of (line, kind, reason or None)."""
    found = {column: defaultdict(list) for column in COLUMNS}
    for path, classes in table.items():
        has_functions = any(
            kind.startswith("function:") for _, kind in classes.get("", {}).get("rms_norm", ())
        )
        file = corpus.models_dir() / path
        calls = calls_in(file.read_text(encoding="utf-8")) if has_functions else ()
        judged = judge(classes, entries[path], calls)
        if SILENT in judged.values():
            module = ast.parse(file.read_text(encoding="utf-8"))
            through_helpers(judged, entries[path], module)
            through_methods(judged, entries[path], module)
        for (cls, family, line, kind), reason in judged.items():
            for column, (of, accepts, _) in COLUMNS.items():
                if of == family and accepts(kind):
                    found[column][path, cls].append((line, kind, reason))
    return found


def units(column, places):
    """(file, class, line, reason) of each thing that the column counts."""
    for (path, cls), rows in places.items():
        if COLUMNS[column][2] == "sites":
            yield from ((path, cls, line, reason) for line, _, reason in rows)
        else:
            bad = [r for r in rows if r[2]]
            line, _, reason = bad[0] if bad else rows[0]
            yield path, cls, line, reason


def figures(found):
    table = {}
    for column, places in found.items():
        count = Counter()
        for *_, reason in units(column, places):
            count["all"] += 1
            count["fused" if not reason else "silent" if reason == SILENT else "refused"] += 1
        table[column] = {k: count[k] for k in ("all", "fused", "refused", "silent")}
    return table


def causal_files(folder):
    """Modeling files with a class of transformers' MODEL_FOR_CAUSAL_LM_MAPPING_NAMES."""
    text = (folder / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES" in ast.unparse(
            node.targets[0]
        ):
            values = [c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant)]
            names |= {name for name in values if name.endswith("ForCausalLM")}
    return [
        path
        for path in corpus.modeling_files(folder)
        if names
        & {
            n.name
            for n in ast.parse((folder / path).read_text(encoding="utf-8")).body
            if isinstance(n, ast.ClassDef)
        }
    ]


def causal(found, files):
    """column -> (files all of whose candidates are fused, files with candidates)."""
    table, bad = {}, {}
    for column, places in found.items():
        having = {path for path, _ in places if path in files}
        bad[column] = {p for (p, _), rows in places.items() if any(r[2] for r in rows)} & having
        table[column] = (len(having - bad[column]), len(having))
    for name, columns in (("headline", HEADLINE), ("every", COLUMNS)):
        broken = set().union(*(bad[c] for c in columns))
        table[name] = (len(set(files) - broken), len(files))
    return table


def report(folder):
    done = subprocess.run([corpus.binary(), "--json", str(folder)], capture_output=True, text=True)
    return {
        Path(e["path"]).resolve().relative_to(folder.resolve()).as_posix(): e
        for e in json.loads(done.stdout)["files"]
    }


def print_table(found, files):
    print(
        f"{'':20}{'counted':>9}{'all':>6}{'fused':>7}{'refused':>9}{'silent':>8}      %   causal, all fused"
    )
    per = causal(found, files)
    for column, row in figures(found).items():
        share = 100 * row["fused"] / row["all"] if row["all"] else 100
        print(
            f"{column:20}{COLUMNS[column][2]:>9}{row['all']:6}{row['fused']:7}{row['refused']:9}"
            f"{row['silent']:8}  {share:5.1f}   {per[column][0]} of {per[column][1]}"
        )
    print("all of {}: {} of {} causal architectures".format(", ".join(HEADLINE), *per["headline"]))
    print("all of every column: {} of {}".format(*per["every"]))


def print_list(found, family):
    for column, (of, _, _) in COLUMNS.items():
        if family not in (of, column):
            continue
        rows = [u for u in units(column, found[column]) if u[3]]
        print(f"# {column}: {len(rows)} not fused")
        for path, cls, line, reason in sorted(rows, key=lambda r: (r[3], r[0])):
            print(f"{path}:{line} {cls or '<module>'}: {reason}")


# --- what is recorded ---


def recorded_path():
    return corpus.HERE / f"coverage_{corpus.version()}.json"


def recorded(found, files):
    """What test_coverage.py holds: no fewer fused, no more of which the report says nothing."""
    return {
        "columns": figures(found),
        "causal": {column: list(pair) for column, pair in causal(found, files).items()},
    }


def worse(old, new):
    """Readable lines for every figure of `new` that is worse than in `old`."""
    lines = []
    for column, row in old["columns"].items():
        now = new["columns"][column]
        if now["fused"] < row["fused"]:
            lines.append(f"{column}: fused {row['fused']} -> {now['fused']} of {now['all']}")
        if now["silent"] > row["silent"]:
            lines.append(f"{column}: without a reason {row['silent']} -> {now['silent']}")
    for column, (whole, count) in old["causal"].items():
        if new["causal"][column][0] < whole:
            lines.append(f"causal, {column}: {whole} -> {new['causal'][column][0]} of {count}")
    return lines


def versions_path():
    return corpus.HERE / "versions.json"


def count_versions(folders):
    """version -> files and matches of each op; a folder is named by its version."""
    table = json.loads(versions_path().read_text()) if versions_path().exists() else {}
    for folder in folders:
        entries = report(folder / "transformers" / "models")
        ops = sum((Counter(c) for c in corpus.counts(entries).values()), Counter())
        table[folder.name] = {"files": len(entries), **dict(sorted(ops.items()))}
    rows = sorted(table.items(), key=lambda row: tuple(map(int, row[0].split("."))))
    versions_path().write_text(corpus.dump_rows(rows))


# --- docs/COVERAGE.md ---

HEAD = """\
# Coverage

Made by `tests/corpus/coverage.py --markdown`; a test holds that it is current. Candidates are what tests/corpus/candidates.py finds in the
modeling files of transformers {version} by the shape of their computations, without the program: {files} files, {sites} candidates.

- `rms_norm`: classes that are an RMS norm. `inline_norm`: norms inside something larger, l2 norms without a weight, functions.
- `gated_norm`: norms with a gate. `glu`: gated MLPs; `glu_moe`: those whose weights are picked per expert.
- `projections`: classes of attention in which several linear layers have the same input; `projections_kv`: k and v alone do;
  `projections_other`: classes that are not attention.
- `rope`: places where something is rotated. `residual_rms`, `residual_layer`: layers in which a sum is normalised, by RMSNorm or LayerNorm, and used again.
- `softcap`: places where a tanh of a quotient is multiplied again.

## Totals

"Causal" counts the {causal} architectures that transformers registers as `...ForCausalLM`: those all of whose candidates are fused, of those that have any.
"No entry": no rule came near enough for the report to name it.

"""


def markdown_totals(found, files):
    lines = [
        "| | counted | all | fused | | refused | no entry | causal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    per = causal(found, files)
    for column, row in figures(found).items():
        whole, having = per[column]
        lines.append(
            f"| {column} | {COLUMNS[column][2]} | {row['all']} | {row['fused']} | {percent(row)} % "
            f"| {row['refused']} | {row['silent']} | {whole} of {having} |"
        )
    headline, every = per["headline"], per["every"]
    lines.append(
        f"\nAll candidates of {', '.join(HEADLINE)} fused: {headline[0]} of {headline[1]} causal "
        f"architectures; all of every column: {every[0]}."
    )
    return lines


def percent(row):
    return f"{100 * row['fused'] / row['all'] if row['all'] else 100:.1f}"


MATCHES = (
    "Matches of each op, counted by one build in all versions (`coverage.py --versions`); the "
    "golden counts in tests/corpus are those of the current rules."
)


def markdown_versions():
    table = json.loads(versions_path().read_text())
    ops = list(dict.fromkeys(op for row in table.values() for op in row))
    lines = [
        "",
        "## Versions of transformers",
        "",
        MATCHES,
        "",
    ]
    lines += ["| version | " + " | ".join(ops) + " |", "|---" * (len(ops) + 1) + "|"]
    for version, row in table.items():
        lines.append(f"| {version} | " + " | ".join(str(row.get(op, 0)) for op in ops) + " |")
    return lines


def markdown_rows(found):
    """A row per file, and the footnotes."""
    notes, cells = {}, defaultdict(dict)
    for column, places in found.items():
        per_file = defaultdict(list)
        for path, _, _, reason in units(column, places):
            per_file[path].append(reason)
        for path, reasons in per_file.items():
            bad = [r for r in reasons if r]
            marks = sorted({notes.setdefault(r, len(notes) + 1) for r in bad})
            text = f"{len(reasons) - len(bad)}/{len(reasons)}" if bad else str(len(reasons))
            cells[path][column] = text + "".join(f" [{m}]" for m in marks)
    lines = [
        "",
        "## Architectures",
        "",
        "`3`: all three are fused; `2/3 [1]`: two, and the third is not for reason 1; empty: absent.",
        "",
    ]
    lines += ["| | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for path, row in sorted(cells.items()):
        name = path.split("/")[-1].removeprefix("modeling_").removesuffix(".py")
        lines.append(f"| {name} | " + " | ".join(row.get(c, "") for c in COLUMNS) + " |")
    lines += ["", "## Reasons", ""]
    for reason, number in notes.items():
        text = "no rule came near enough for the report to name it" if reason == SILENT else reason
        lines.append(f"{number}. {text}")
    return lines


def markdown(found, files, table):
    sites = sum(
        len(rows) for classes in table.values() for f in classes.values() for rows in f.values()
    )
    head = HEAD.format(version=corpus.version(), files=corpus.FILES, sites=sites, causal=len(files))
    lines = markdown_totals(found, files) + markdown_versions() + markdown_rows(found)
    return head + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--list", metavar="FAMILY", help="what is not fused, with its reason")
    parser.add_argument("--write", action="store_true", help="record the figures")
    parser.add_argument("--markdown", action="store_true", help="docs/COVERAGE.md")
    parser.add_argument("--versions", nargs="+", type=Path, metavar="DIR", help="count these")
    options = parser.parse_args()
    if options.versions:
        count_versions(options.versions)
        return 0
    folder = corpus.models_dir()
    table = json.loads(candidates.list_path().read_text())
    found, files = measure(table, report(folder)), causal_files(folder)
    if options.list:
        print_list(found, options.list)
    elif options.markdown:
        print(markdown(found, files, table), end="")
    else:
        print_table(found, files)
    if options.write:
        recorded_path().write_text(json.dumps(recorded(found, files), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
