#!/bin/sh
# Formats the C, CUDA and Python sources; with --check changes nothing and exits 1 if something would change.
# RUFF and CLANG_FORMAT name the programs where they are not on PATH (versions: .ci/run).
set -eu
cd "$(dirname "$0")/.."
ruff=${RUFF:-ruff}
clang_format=${CLANG_FORMAT:-clang-format-14}
if [ "${1:-}" = --check ]; then
    c_mode="--dry-run -Werror" python_mode=--check lint_mode=
else
    c_mode=-i python_mode= lint_mode=--fix
fi
status=0
find bench cli cmake codegen_templates jit parser rewriter runtime tests \
    \( -name '*.[ch]' -o -name '*.cu' \) 2>/dev/null |
    xargs $clang_format $c_mode || status=1
$ruff format --quiet $python_mode . || status=1
$ruff check --quiet $lint_mode . || status=1
exit $status
