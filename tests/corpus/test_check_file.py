"""Each check of check_file.py and corpus.py fails when it should, one wrong thing at a time."""

import check_file
import corpus
import pytest

ORIGINAL = '''\
"""A model."""
import torch
from torch import nn
from helpers import (
    audited,
)

LIMIT = 3  # of something


@audited("MLP")
class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.a, config.b)
        self.up = nn.Linear(config.a, config.b)
        self.act = nn.SiLU()

    @audited("forward",
             twice=True)
    def forward(
        self, x, cache=None  # a header of its own lines
    ):
        """Of x."""
        # before the block
        self.seen = x.shape
        gate = self.act(self.gate(x))  # rounded here
        hidden = gate * self.up(x)
        cache.update(hidden)
        if hidden.numel() > LIMIT:
            log("many")
        return hidden


class Other(nn.Module):
    def forward(self, x):
        return x\t# a tab
'''
BLOCK = """\
        gate = self.act(self.gate(x))  # rounded here
        hidden = gate * self.up(x)
"""
CALLS = """\
        gate, up = tfr.linears(x, self.gate, self.up)  # rounded here
        hidden = tfr.act_mul(self.act, gate, up)
"""
IMPORT = ("    audited,\n)\n", "    audited,\n)\nfrom tfrewrite import ops as tfr\n")
FUSED = [
    {"op": op, "class": "MLP", "function": "forward", "line": 27, "end_line": 28, "count": 1}
    for op in ("linears", "act_mul")
]
REPORT = {"path": "modeling_a.py", "changed": True, "fused": FUSED, "refused": []}


def rewritten(*replacements):
    text = ORIGINAL
    for old, new in ((BLOCK, CALLS), IMPORT, *replacements):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def check(new, report=REPORT, old=ORIGINAL):
    return check_file.problems(old.encode(), new.encode(), report)


def test_sound_rewrite_passes():
    assert ORIGINAL.splitlines()[26].strip().startswith("gate =")
    assert check(rewritten()) == []
    crlf = [t.replace("\n", "\r\n") for t in (rewritten(), ORIGINAL)]
    assert check(crlf[0], old=crlf[1]) == []
    unchanged = {**REPORT, "changed": False, "fused": []}
    assert check(ORIGINAL, unchanged) == []


WRONG = {
    "comment lost": ([("  # rounded here", "")], "comments"),
    "comment changed": ([("# before the block", "# before the  block")], "comments|is gone"),
    "comment outside lost": ([("  # of something", "")], "outside"),
    "tab outside became a space": ([("x\t#", "x #")], "outside"),
    "comment in the header lost": ([("  # a header of its own lines", "")], "outside"),
    "class decorator lost": ([('@audited("MLP")\n', "")], "outside"),
    "decorator argument lost": (
        [('@audited("forward",\n             twice=True)', '@audited("forward")')],
        "outside",
    ),
    "signature changed": ([("x, cache=None", "x, cache")], "outside"),
    "init changed": ([("self.act = nn.SiLU()", "self.act = nn.SiLU(inplace=True)")], "outside"),
    "docstring changed": ([("Of x.", "Of X.")], "outside"),
    "class renamed": ([("class Other", "class Others")], "functions"),
    "function lost": (
        [("    def forward(self, x):\n        return x\t# a tab\n", "    pass\n")],
        "functions",
    ),
    "call of something unknown lost": (
        [("        cache.update(hidden)\n", "")],
        "call.* of .update",
    ),
    "condition lost": (
        [
            (
                '        if hidden.numel() > LIMIT:\n            log("many")\n',
                '        log("many")\n',
            )
        ],
        "If",
    ),
    "attribute write lost": ([("        self.seen = x.shape\n", "")], "writes"),
    "return added": (
        [
            (
                "        cache.update(hidden)\n",
                "        return hidden\n        cache.update(hidden)\n",
            )
        ],
        "Return",
    ),
    "name no longer set": (
        [
            (
                "        hidden = tfr.act_mul(self.act, gate, up)\n",
                "        out = tfr.act_mul(self.act, gate, up)\n",
            )
        ],
        "hidden is read",
    ),
    "module of the block dropped": (
        [("tfr.linears(x, self.gate, self.up)", "tfr.linears(x, self.gate, self.gate)")],
        "self.up",
    ),
    "import twice": (
        [("LIMIT = 3", "from tfrewrite import ops as tfr\nLIMIT = 3")],
        "outside|imports",
    ),
    "import inside a function": (
        [
            IMPORT[::-1],
            (
                '        """Of x."""\n',
                '        """Of x."""\n        from tfrewrite import ops as tfr\n',
            ),
        ],
        "import|ImportFrom|outside",
    ),
    "second line edited": ([("LIMIT = 3", "LIMIT = 4")], "outside"),
    "final newline lost": ([("x\t# a tab\n", "x\t# a tab")], "outside"),
    "does not parse": ([("gate, up)", "gate, up")], "parse"),
    "only Python's compiler minds": (
        [("        return hidden\n", "        return hidden\n        break\n")],
        "parse",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rewrite_is_seen(name):
    replacements, message = WRONG[name]
    found = check(rewritten(*replacements))
    import re

    assert found and re.search(message, " ".join(found)), found


def test_report_must_name_what_changed():
    line = {**FUSED[0], "line": 28}
    elsewhere = {**FUSED[0], "class": "Other", "line": 38, "end_line": 38}
    for fused in (
        [line],
        [elsewhere],
        [{**FUSED[0], "function": "backward"}],
        [{**FUSED[0], "line": 90, "end_line": 91}],
    ):
        assert check(rewritten(), {**REPORT, "fused": fused})
    assert check(rewritten(), {**REPORT, "changed": False, "fused": []})
    assert check(ORIGINAL, REPORT)


def test_init_may_not_be_edited():
    entry = {**FUSED[0], "function": "__init__", "line": 15, "end_line": 15}
    assert any(
        "__init__" in what for what in check(rewritten(), {**REPORT, "fused": [*FUSED, entry]})
    )


def test_golden_diff_names_lost_and_gained():
    golden = {"a/m.py": {"linears": 2, "rope": 1}, "b/m.py": {}}
    assert corpus.differences(golden, {k: dict(v) for k, v in golden.items()}) == []
    lines = corpus.differences(
        golden, {"a/m.py": {"linears": 1, "rms_norm": 1, "rope": 1}, "c/m.py": {}}
    )
    assert lines[:4] == [
        "a/m.py: linears 2 -> 1 (lost)",
        "a/m.py: rms_norm 0 -> 1 (gained)",
        "b/m.py: file lost",
        "c/m.py: file gained",
    ]
    assert lines[4].startswith("total: linears 2 -> 1")


def test_only_computing_methods_may_be_absorbed():
    text = (
        "class A:\n    def _norm(self, x): return x * torch.rsqrt(x.pow(2))\n"
        "    def _keep(self, x): self.last = x.float()\n"
        "    def _log(self, x): audit(x.float())\n"
        "    def forward(self, x):\n"
        "        self._keep(x)\n        self._log(x)\n        return self._norm(x)\n"
        "class B:\n    def _norm(self, x): return audit(x)\n"
    )
    import ast

    found = check_file.functions(ast.parse(text), check_file.split_lines(text.encode()))
    forward = next(f for f in found if f.path == "A#0.forward#0")
    helpers = check_file.pure_methods(forward, found, set())
    assert "self._norm" in helpers and not {"self._keep", "self._log"} & helpers
    new = ast.parse("def forward(self, x):\n    return x").body[0]
    lost = check_file.lost_calls(forward.node, new, helpers)
    assert sorted(lost) == ["1 call(s) of self._keep are gone", "1 call(s) of self._log are gone"]
