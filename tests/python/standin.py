#!/usr/bin/env python3
"""Stands in for the C program: `standin.py --json [options] -o OUT FILE` replaces known texts.

$STANDIN chooses a fault (crash, hang, refuse, usage, bad python, no report, unknown op, wrong).
$STANDIN_LOG is a file that gets one line per run.
"""

import json
import os
import signal
import sys
import time

EDITS = [  # text, replacement, op, class, function
    (
        "        return self.act_fn(self.gate_proj(x)) * self.up_proj(x)\n",
        "        gate, up = tfr.demo_linears(x, self.gate_proj, self.up_proj)\n"
        "        return tfr.demo_mul(self.act_fn, gate, up)\n",
        "demo_mul",
        "DemoMLP",
        "forward",
    ),
    (
        "    return apply_rotary(q, k, cos, sin)\n",
        "    return tfr.demo_rope(q, k, cos, sin, unsqueeze_dim=1, via=apply_rotary)\n",
        "demo_rope",
        "",
        "rotate",
    ),
]


def main(words):
    how = os.environ.get("STANDIN", "")
    if "STANDIN_LOG" in os.environ:
        with open(os.environ["STANDIN_LOG"], "a") as log:
            log.write(" ".join(words) + "\n")
    out, path = words[words.index("-o") + 1], words[-1]
    if how == "crash":
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        time.sleep(60)
    if how == "refuse":
        print(f"tfrewrite: {path}:3:7: brackets too deep", file=sys.stderr)
        return 3
    if how == "usage":
        print("tfrewrite: no op called x", file=sys.stderr)
        return 2
    with open(path, encoding="utf-8", newline="") as file:
        text = new = file.read()
    fused = []
    for old, edit, op, owner, function in EDITS:
        if old in new:
            line = new[: new.index(old)].count("\n") + 1
            new = new.replace(old, edit)
            entry = {
                "op": op,
                "class": owner,
                "function": function,
                "line": line,
                "end_line": line,
                "count": 1,
            }
            fused.append(entry)
    if new != text:
        head, tail = new.split("\nfrom torch import nn\n", 1)
        new = f"{head}\nfrom torch import nn\nfrom tfrewrite import ops as tfr\n{tail}"
    if how == "wrong":
        new = new.replace(
            "tfr.demo_mul(self.act_fn, gate, up)", "tfr.demo_mul(self.act_fn, up, gate)"
        )
    if how == "bad python":
        new += "def (:\n"
    if how == "unknown op":
        fused.append({"op": "demo_from_the_future", "class": "DemoMLP", "function": "forward"})
    with open(out, "w", encoding="utf-8", newline="") as file:
        file.write(new)
    refused = [
        {
            "op": "demo_mul",
            "class": "DemoOdd",
            "function": "forward",
            "line": 1,
            "column": 1,
            "reason": "branch",
        }
    ]
    file = {"path": path, "changed": new != text, "fused": fused, "refused": refused}
    print("" if how == "no report" else json.dumps({"version": 1, "files": [file]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
