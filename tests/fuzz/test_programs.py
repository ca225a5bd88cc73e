"""A bounded run of the generated programs, and that the run would see a fault.

TFR_FUZZ_SECONDS=3600 runs longer; programs.py has a command line that keeps what it finds.
"""

import dataclasses
import os
import re
from types import SimpleNamespace

import programs
import pytest
import torch

SECONDS = float(os.environ.get("TFR_FUZZ_SECONDS", "50"))


def test_programs(tmp_path):
    count, found = programs.run(range(1 << 40), SECONDS, tmp_path)
    texts = "\n".join(p.read_text() for p in tmp_path.iterdir())
    assert not found, f"{found}\n{texts}"
    assert count >= 20, "too few to say anything"


def test_a_seed_is_a_program():
    assert programs.Program(5).text() == programs.Program(5).text()
    assert len({programs.Program(seed).text() for seed in range(20)}) > 15


def test_every_op_is_fused_and_every_construct_written():
    ops, text = set(), ""
    for seed in range(90):
        program = programs.Program(seed).text()
        text += program
        ops |= {e["op"] for e in programs.rewrite_with_binary(program.encode()).report["fused"]}
    assert {"rms_norm", "add_rms_norm", "linears", "act_mul", "rope", "qk_norm_rope"} <= ops
    assert {"softcap", "l2_norm", "gated_rms_norm"} <= ops
    words = "for while with try: finally: match elif else: raise break continue := += self.layers:"
    for word in [*words.split(), "b1=None", "autocast", "unbind"]:
        assert word in text, word


BLOCK = programs.module(
    ["h = x + y", "n = self.norm(h)", "g = self.gate(n)", "return self.act(g) * self.up(n), h"],
    [],
    [],
)


@pytest.mark.parametrize("proved", [False, True], ids=["by the proof", "by the run"])
def test_a_wrong_rewrite_is_found(monkeypatch, proved):
    assert programs.check(BLOCK) is None
    rewrite = programs.rewrite_with_binary

    def wrong(data):
        out = rewrite(data)
        text = re.sub(rb"(act_mul\(self.act, )(\w+), (\w+)", rb"\1\3, \2", out.text)
        assert text != out.text
        return dataclasses.replace(out, text=text)

    monkeypatch.setattr(programs, "rewrite_with_binary", wrong)
    monkeypatch.setattr(programs, "check_second_run", lambda *_: None)
    if proved:
        equal = SimpleNamespace(returncode=0)
        monkeypatch.setattr(programs.subprocess, "run", lambda *_a, **_k: equal)
    fault = programs.check(BLOCK, torch.float32)
    assert fault and fault.startswith("not proved") != proved


def test_a_found_program_is_made_smaller():
    text = programs.Program(3).text().replace("return ", "LOG.append(77); return ")
    least = programs.smaller(text, lambda t: "77" in t)
    assert "77" in least and len(least.splitlines()) < len(text.splitlines()) // 3
