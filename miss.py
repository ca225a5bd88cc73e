import ast
import json
import re
from pathlib import Path

M = Path("/tmp/env/v/lib/python3.11/site-packages/transformers/models")
T = json.load(open("tests/corpus/candidates_5.24.0.json"))
n = dict(norm=0, glu=0, rope=0, res=0)
out = {k: [] for k in n}
for f in sorted(M.rglob("modeling_*.py")):
    r = f.relative_to(M).as_posix()
    t = T.get(r, {})
    src = f.read_text()
    tree = ast.parse(src)
    for c in tree.body:
        if isinstance(c, ast.ClassDef):
            text = ast.unparse(c)
            fam = t.get(c.name, {})
            if (
                ("RMSNorm" in c.name or "rsqrt" in text)
                and "rms_norm" not in fam
                and "gated_norm" not in fam
            ):
                out["norm"].append((r, c.name, c.lineno))
            if (
                re.search(r"gate_proj\(|\bwi_1\(|\.w3\(|up_proj\(|chunk\(2", text)
                and "glu" not in fam
            ):
                out["glu"].append((r, c.name, c.lineno))
            if (
                re.search(r"apply_rot|rotat\w*\(", text)
                and "rope" not in fam
                and "def forward" in text
            ):
                out["rope"].append((r, c.name, c.lineno))
            if (
                re.search(r"residual \+|\+ residual|hidden_states \+", text)
                and re.search("norm", text)
                and "residual" not in fam
            ):
                out["res"].append((r, c.name, c.lineno))
for k, v in out.items():
    print("==", k, len(v))
    for x in v:
        print("  ", *x)
