"""The model whose outputs must be right whatever becomes of its kernels: a small Qwen3, rewritten
by the hook's own loader, beside the original. To be used in forked processes only, so that the
one that holds it never loads a kernel.
"""

import importlib.util
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from entries import check_sound, kernels
from forked import run

torch.set_num_threads(1)  # a pool of threads does not survive a fork
HOME = "transformers.models.qwen3"


@dataclass
class Outcome:
    right: bool
    difference: float  # the largest, over the largest magnitude
    calls: Counter  # (op, variant, path)

    @property
    def paths(self) -> set[str]:
        """Of all ops but the linears, which torch runs here."""
        return {path for op, _, path in self.calls if not op.startswith("linear")}


class Subject:
    kernels = 4  # that run() asks for

    def __init__(self):
        original = importlib.import_module(f"{HOME}.modeling_qwen3")
        config = sys.modules[HOME].Qwen3Config(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=64,
            pad_token_id=0,
        )
        torch.manual_seed(0)
        reference = original.Qwen3ForCausalLM(config).eval()
        with torch.no_grad():
            for p in reference.parameters():
                p.copy_(
                    1 + 0.3 * torch.randn(p.shape)
                    if p.dim() < 2
                    else torch.randn(p.shape) / p.shape[-1] ** 0.5
                )
        self.model = self._rewritten(original.__file__).Qwen3ForCausalLM(config).eval()
        self.model.load_state_dict(reference.state_dict())
        self.ids = torch.randint(1, 64, (2, 7))
        with torch.no_grad():
            self.expected = reference(input_ids=self.ids).logits

    @staticmethod
    def _rewritten(path: str):
        from tfrewrite import hook, program

        name = f"{HOME}.modeling_qwen3__hooked"
        spec = importlib.util.spec_from_file_location(name, path)
        hook.Finder(program.Options(), False).adopt(spec)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        assert hook.results[name].status == "rewritten", hook.results[name].reason
        return module

    def run(self) -> Outcome:
        from tfrewrite import ops

        with torch.no_grad(), ops.record() as calls:
            got = self.model(input_ids=self.ids).logits
        difference = ((got - self.expected).abs().max() / self.expected.abs().max()).item()
        return Outcome(difference <= 1e-5, difference, Counter(calls))


def state(base) -> list:
    """What a failed assertion should show of a cache."""
    files = sorted(Path(base or "/nowhere", "kernels").glob("*"))
    return [
        (f.name, f.stat().st_size, f.read_bytes() if f.suffix == ".tfrc" else "") for f in files
    ]


class Model:
    """Runs the subject in processes of their own, and holds it to what every run must give."""

    def __init__(self, subject, compiler):
        self.subject, self.compiler = subject, compiler

    def check(self, function=None, *, compiled: int, path: str = "jit", **environment) -> list[str]:
        """The warnings of a run that must be right, on this path, after so many compilations."""
        before = self.compiler.runs()
        outcome, warnings = run(function or self.subject.run, **environment)
        assert outcome.right, outcome
        assert outcome.paths == {path}, (outcome, warnings)
        runs = self.compiler.runs() - before
        assert runs == compiled, (runs, warnings, state(environment.get("TFR_CACHE_DIR")))
        return warnings

    def check_healed(self, base: Path, **environment) -> None:
        """The next process finds a cache in order, and compiles nothing."""
        check_sound(base)
        assert len(kernels(base)) == self.subject.kernels
        assert self.check(compiled=0, TFR_CACHE_DIR=base, **environment) == []
