"""`python -m tfrewrite verify FILE`: the original and the rewritten module, side by side on random
weights.

Exit status: 0 no difference, 1 a difference, 2 usage, or nothing could be run, 3 the file was
refused.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tfrewrite import program
from tfrewrite.program import RewriteError


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tfrewrite verify", description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE", help="a modeling_*.py that has not been rewritten")
    parser.add_argument(
        "--config", metavar="config.json", help="default: the file's own configuration, made small"
    )
    parser.add_argument(
        "--every-layer", action="store_true", help="with --config: not just one layer of each kind"
    )
    parser.add_argument(
        "--max-rel",
        type=float,
        default=1e-5,
        help="bound of the largest difference over the largest magnitude",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rules", metavar="DIR", action="append", help="rule files of your own")
    parser.add_argument("--only", metavar="OP,..")
    parser.add_argument("--skip", metavar="OP,..")
    parser.add_argument("--target", default="auto", choices=("auto", "host", "cuda"))
    options = parser.parse_args(words)
    try:
        values = json.loads(Path(options.config).read_text()) if options.config else None
        result = program.rewrite(
            Path(options.file),
            rules=options.rules,
            only=options.only,
            skip=options.skip,
            target=options.target,
        )
    except RewriteError as error:
        print(f"tfrewrite: {error}", file=sys.stderr)
        return 3 if error.status == program.REFUSED else 2
    except (OSError, ValueError) as error:
        print(f"tfrewrite: {error}", file=sys.stderr)
        return 2
    if not result.changed:
        print(f"tfrewrite: {options.file}: NOTHING to compare: no op of it would be rewritten")
        return 0
    for folder in options.rules or ():
        from tfrewrite import rules

        rules.add(folder)
    return _verify(options, result, values)


def _verify(
    options: argparse.Namespace, result: program.Result, values: dict[str, Any] | None
) -> int:
    with tempfile.TemporaryDirectory(prefix="tfrewrite-verify-") as folder:
        try:
            package, tail = _package(Path(options.file))
            original = _load(package, Path(options.file), "original")
        except Exception as error:
            print(
                f"tfrewrite: {options.file} itself cannot be imported: {_short(error)}",
                file=sys.stderr,
            )
            return 2
        path = Path(folder) / tail
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(result.data)
        try:
            rewritten = _load(package, path, "rewritten")
        except Exception as error:
            print(f"DIFFERENT: the rewritten module cannot be imported: {_short(error)}")
            return 1
        return _compare_modules(original, rewritten, result, options, values)


def _short(error: BaseException) -> str:
    text = " ".join(traceback.format_exception_only(error)[-1].split())
    return text if len(text) < 300 else text[:300] + " ..."


# ------------------------------------------------------------------ two modules in one package
def _package(file: Path) -> tuple[str, Path]:
    """The package that the file's relative imports start from, and a tail of a path for it."""
    file = file.resolve()
    parts, folder = [], file.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        return ".".join(parts), Path(*parts, file.name)
    match = re.fullmatch(r"modeling_(\w+)\.py", file.name)
    if match and re.search(
        rb"^\s*from \.\.\.", file.read_bytes(), re.MULTILINE
    ):  # a copy of one of Transformers' own
        name = f"transformers.models.{match[1]}"
        if importlib.util.find_spec(name) is not None:
            return name, Path("transformers", "models", match[1], file.name)
    name = "tfrewrite_verified"  # Hub code: its neighbours are its package
    package = ModuleType(name)
    package.__path__ = [str(file.parent)]
    sys.modules[name] = package
    return name, Path(name, file.name)


def _load(package: str, path: Path, kind: str) -> ModuleType:
    name = f"{package}.{path.stem}__{kind}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    importlib.import_module(package)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------ models
def _candidates(module: ModuleType, values: dict[str, Any] | None) -> list[str]:
    """The model classes that the module defines, those that hold most of the others first."""
    from transformers import PreTrainedModel

    found = []
    for name, value in vars(module).items():
        if (
            isinstance(value, type)
            and issubclass(value, PreTrainedModel)
            and value.__module__ == module.__name__
            and not name.endswith(("PreTrainedModel", "PretrainedModel"))
            and getattr(value, "config_class", None) is not None
        ):
            found.append(name)
    if values is not None:
        kind = values.get("model_type")
        fitting = [
            n for n in found if getattr(getattr(module, n).config_class, "model_type", None) == kind
        ]
        found = fitting or found
    named = (values or {}).get("architectures") or []

    def order(name: str) -> int:
        kinds = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model")
        return (
            -1
            if name in named
            else next((i for i, k in enumerate(kinds) if name.endswith(k)), len(kinds))
        )

    return sorted(found, key=order)


def _compare_modules(
    original: ModuleType,
    rewritten: ModuleType,
    result: program.Result,
    options: argparse.Namespace,
    values: dict[str, Any] | None,
) -> int:
    names = _candidates(original, values)
    fused = {e["class"] for e in result.fused if e.get("class")}
    unseen, ran, worst = set(fused), 0, 0.0
    for name in names:
        if ran and not unseen:
            break
        try:
            used, model = _build(getattr(original, name), options, values)
            batch, expected = _run(model, options.seed)
        except Exception as error:
            print(f"{name}: not run: {_short(error)}")
            continue
        touched = {type(m).__name__ for m in used}
        if ran and not touched & unseen:
            continue
        unseen -= touched
        ran += 1
        print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters")
        difference = _compare_model(getattr(rewritten, name), model, batch, expected, options)
        worst = max(worst, difference)
    if not ran:
        print(f"tfrewrite: {options.file}: no model of it could be built and run", file=sys.stderr)
        return 2
    if unseen:
        print(f"not exercised by these models: {', '.join(sorted(unseen))}")
    same = worst <= options.max_rel
    verdict = "same" if same else "DIFFERENT"
    print(f"{verdict}: largest difference {worst:.3g} of the largest magnitude, {ran} models")
    return 0 if same else 1


def _build(
    cls: type, options: argparse.Namespace, values: dict[str, Any] | None
) -> tuple[set[Any], Any]:
    """A model with random weights, and a set that fills with the modules that run in it."""
    import torch

    from tfrewrite import tiny

    if values is None:
        config = tiny.tiny_config(cls.config_class)
    else:
        config = tiny.config_from(cls.config_class, values, options.every_layer)
    torch.manual_seed(options.seed)
    model = cls(config).float().eval()
    tiny.randomize(model, options.seed)
    used: set[Any] = set()
    for module in model.modules():
        module.register_forward_pre_hook(lambda m, _args: used.add(m))
    return used, model


def _run(model: Any, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    import torch

    from tfrewrite import tiny

    batch = tiny.inputs(model, seed)
    with torch.no_grad():
        found = dict(_tensors(model(**batch), ""))
        if getattr(model, "can_generate", bool)() and "input_ids" in batch:
            found.update(_generated(model, batch))
    if not found:
        raise ValueError("its output holds no tensor")
    return batch, found


def _generated(model: Any, batch: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The logits of four greedy steps on the cache."""
    model.generation_config.eos_token_id = None
    out = model.generate(
        **batch,
        max_new_tokens=4,
        do_sample=False,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_logits=True,
    )
    yield from ((f"generate step {i}", t) for i, t in enumerate(out.logits))


def _tensors(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield path or "output", value
    elif hasattr(value, "layers") and hasattr(value, "get_seq_length"):  # a cache
        for i, layer in enumerate(value.layers):
            for part in ("keys", "values"):
                yield from _tensors(getattr(layer, part, None), f"{path}.{i}.{part}")
    elif hasattr(value, "items") or isinstance(value, (list, tuple)):
        for key, item in value.items() if hasattr(value, "items") else enumerate(value):
            yield from _tensors(item, f"{path}.{key}" if path else str(key))


# ------------------------------------------------------------------ comparison
def _compare_model(
    cls: type,
    model: Any,
    batch: dict[str, Any],
    expected: dict[str, Any],
    options: argparse.Namespace,
) -> float:
    """Prints the largest difference of each output; gives the largest of all, over the largest
    magnitude.
    """
    import torch

    try:
        other = cls(model.config).float().eval()
        other.load_state_dict(model.state_dict(), strict=True)
        with torch.no_grad():
            got = dict(_tensors(other(**batch), ""))
            if any(k.startswith("generate step") for k in expected):
                got.update(_generated(other, batch))
    except Exception as error:
        print(f"  DIFFERENT: the rewritten model fails: {_short(error)}")
        return math.inf
    worst = 0.0
    for path in expected.keys() | got.keys():
        if (path in expected) != (path in got):
            print(f"  {path}: only in the {'original' if path in expected else 'rewritten'} output")
            worst = math.inf
    for path in (p for p in expected if p in got):
        difference, note = _difference(expected[path], got[path])
        shape = "x".join(map(str, expected[path].shape)) or "scalar"
        print(f"  {path:<28} {shape:<16} largest difference {difference:.3g}{note}")
        worst = max(worst, difference)
    return worst


def _difference(a: Any, b: Any) -> tuple[float, str]:
    import torch

    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf, f" (became {tuple(b.shape)}, {b.dtype})"
    note = "" if a.stride() == b.stride() else f" (strides {a.stride()} became {b.stride()})"
    if not a.numel() or torch.equal(a, b):
        return 0.0, note
    x, y = a.double(), b.double()
    same = (x == y) | (x.isnan() & y.isnan())
    off = torch.where(same, 0.0, (x - y).abs()).nan_to_num(math.inf, posinf=math.inf)
    finite = x[x.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return float(off.max()) / scale if scale else math.inf, note


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
