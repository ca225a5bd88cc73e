"""Checks what the design fixes about the C sources and no compiler sees.

Prints each fault; exits 1 on any.

- Who may include whom: cli -> runtime -> rewriter -> parser, and runtime -> jit -> codegen_templates;
  arena, error and utf8 are for everybody.
- Nothing under parser/ or rewriter/ knows CUDA, torch or dynamic loading; jit/ knows no torch.
- Only cli/ prints or exits, only runtime/arena.c allocates.
- No model's name in C: what varies between models is a rule or a table.
- File names are unique in the tree.

Usage: python3 scripts/check_layers.py [ROOT]
"""

import re
import sys
from pathlib import Path

EVERYBODY = {"runtime/arena.h", "runtime/error.h", "runtime/utf8.h"}
MAY_INCLUDE = {
    "cli": {"cli", "rewriter", "parser", "runtime", "jit", "codegen_templates"},
    "rewriter": {"rewriter", "parser"},
    "parser": {"parser"},
    "runtime": {"runtime", "jit", "rewriter", "codegen_templates"},
    "jit": {"jit", "codegen_templates"},
    "codegen_templates": {"codegen_templates"},
}
TORCH = re.compile(r"^(torch|ATen|c10|aten)(/|\.)|torch_abi")
CUDA = re.compile(r"^(cuda|cu(blas|dnn|pti)|nvrtc|nccl|nvml|dlfcn)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
OUTPUT = re.compile(r"(?<![\w.>])(v?f?printf|f?puts|f?putc|putchar|perror|_?exit|abort)\s*\(")
ALLOCATE = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|reallocarray|free|strn?dup)\s*\(")
MODEL = re.compile(r"\b(qwen|llama|mixtral|gemma|deepseek|mistral|olmo|phi3)\w*", re.IGNORECASE)
TEXTS = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
COMMENTS = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')|//[^\n]*|/\*.*?\*/', re.DOTALL)


def without_comments(text: str) -> str:
    """The text with comments blanked, line numbers kept."""
    return COMMENTS.sub(lambda m: m[1] or "\n" * m[0].count("\n"), text)


def include_fault(layer: str, quote: str, target: str) -> str | None:
    if layer in ("parser", "rewriter") and (CUDA.search(target) or TORCH.search(target)):
        return f"{layer}/ must not know {target}"
    if layer == "jit" and TORCH.search(target):
        return f"jit/ must not know {target}"
    if quote == "<" or target in EVERYBODY:
        return None
    folder, slash, _ = target.partition("/")
    if not slash:
        return f'write "{layer}/{target}": includes name the folder'
    if folder not in MAY_INCLUDE[layer]:
        return f"{layer}/ must not include {folder}/"
    return None


def faults_of(path: Path, layer: str, name: str):
    for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
        if include := INCLUDE.match(line):
            if fault := include_fault(layer, *include.groups()):
                yield number, fault
            continue
        if layer != "cli" and (model := MODEL.search(line)):
            yield number, f"a model's name in C: {model[0]}"
        code = TEXTS.sub('""', line)
        if name == "runtime/arena.c":
            continue
        if layer != "cli" and (call := OUTPUT.search(code)):
            yield number, f"{call[1]}: only cli/ prints or exits"
        if call := ALLOCATE.search(code):
            yield number, f"{call[1]}: only runtime/arena.c allocates"


def main(root: Path) -> int:
    faults = []
    seen: dict[str, str] = {}
    for layer in MAY_INCLUDE:
        for path in sorted((root / layer).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            if path.name in seen:
                faults.append(f"{name}: the name is taken by {seen[path.name]}")
            seen[path.name] = name
            faults += [f"{name}:{line}: {text}" for line, text in faults_of(path, layer, name)]
    print("\n".join(faults) or f"layers: {len(seen)} files, no fault")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]))
