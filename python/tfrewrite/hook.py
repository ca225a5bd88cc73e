"""The import hook: Transformers' modeling modules are rewritten as they are imported.

Two ways lead to a modeling module. Those inside Transformers come through sys.meta_path, where a
finder gives them a loader of ours. Hub code (trust_remote_code) does not:
transformers.dynamic_module_utils makes a spec from a file, so the function by which it does that is
replaced, when that module is imported or at once.

The code that runs has the file in the cache as its file name, so tracebacks, debuggers, inspect and
torch.compile show it. `__file__` and the spec keep naming the original: what is saved with a model
(custom_object_save) must not depend on tfrewrite, and modules find their data files that way.
Classes are looked up through `__file__`, so linecache gives the rewritten text for it too.

Nothing here may make an import fail that would have worked: every fault ends in the original module
and one warning.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, ModuleType
from typing import Any

from tfrewrite import program, store
from tfrewrite.program import Options, Result, RewriteError

_HUB = "transformers_modules"  # the package that Hub code is loaded into
_HUB_LOADER = "transformers.dynamic_module_utils"


class TfrewriteWarning(UserWarning):
    """Something was not rewritten that could have been expected to be."""


@dataclass
class ModuleResult:
    """What became of one modeling module."""

    name: str
    status: str  # rewritten, unchanged, dry run, refused, failed
    reason: str = ""
    path: str = ""  # the file that runs
    fused: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)


results: dict[str, ModuleResult] = {}  # by module name; written under _lock
_lock = threading.RLock()
_said: set[str] = set()


def warn(message: str) -> None:
    """One warning per message; never an exception, whatever filters are set."""
    with _lock:
        if message in _said:
            return
        _said.add(message)
    try:
        warnings.warn(f"tfrewrite: {message}", TfrewriteWarning, stacklevel=2)
    except TfrewriteWarning:
        print(f"tfrewrite: {message}", file=sys.stderr)


def disabled() -> bool:
    return os.environ.get("TFR_DISABLE", "") not in ("", "0")


def wanted(name: str) -> bool:
    """Modeling modules of Transformers' models and of Hub code, no TensorFlow or Flax ones.

    models.auto holds tables, and is imported with Transformers itself: it is never in time. Hub
    code has layers in files of any name: see `beside`.
    """
    package, _, leaf = name.rpartition(".")
    if not leaf.startswith("modeling_") or leaf.startswith(("modeling_tf_", "modeling_flax_")):
        return False
    if package.startswith("transformers.models."):
        return package != "transformers.models.auto"
    return package.split(".")[0] == _HUB


def beside(name: str) -> bool:
    """Other modules of Hub code: they are rewritten if they have to do with torch."""
    return name.startswith(_HUB + ".") and not wanted(name)


# ------------------------------------------------------------------ one module
class RewritingLoader(importlib.machinery.SourceFileLoader):
    """Loads a modeling module rewritten, or as it is when anything is in the way."""

    def __init__(self, fullname: str, path: str, options: Options, dry_run: bool) -> None:
        super().__init__(fullname, path)
        self._options, self._dry_run = options, dry_run
        self._text: str | None = None  # what runs, when that is not the file

    def get_code(self, fullname: str) -> CodeType | None:
        self._text = None
        try:
            source = self.get_data(self.path)
        except OSError:
            return super().get_code(fullname)  # says so itself
        if beside(self.name) and b"torch" not in source:
            return super().get_code(fullname)
        try:
            code = self._rewritten_code(source)
        except Exception as error:  # a fault of ours must not become one of the program
            _keep(ModuleResult(self.name, "failed", f"{type(error).__name__}: {error}"))
            warn(f"{self.name} runs as it is: {type(error).__name__}: {error}")
            code = None
        return super().get_code(fullname) if code is None else code

    def get_source(self, fullname: str) -> str | None:
        return super().get_source(fullname) if self._text is None else self._text

    def _rewritten_code(self, source: bytes) -> CodeType | None:
        tail = self.name.replace(".", "/") + ".py"
        try:
            result, path = obtain(source, self.path, tail, self._options)
            code = None
            if result.changed:
                _check_ops(result)
                code = _code(self.name, result, path or self.path, cached=path is not None)
        except RewriteError as error:
            refused = error.status == program.REFUSED
            status = "refused" if refused else "failed"
            _keep(ModuleResult(self.name, status, str(error), self.path))
            warn(str(error) if refused else f"modules run as they are: {error}")
            return None
        status = "unchanged" if code is None else "dry run" if self._dry_run else "rewritten"
        runs = path if status == "rewritten" and path else self.path
        _keep(ModuleResult(self.name, status, "", runs, result.fused, result.refused))
        if status != "rewritten":
            return None
        self._text = result.text
        lines = self._text.splitlines(keepends=True)
        linecache.cache[self.path] = (len(result.data), None, lines, self.path)
        return code


def obtain(source: bytes, path: str, tail: str, options: Options) -> tuple[Result, str | None]:
    """The rewritten form of `source`, and its file in the cache.

    The file is None when there is nothing to rewrite, or when the cache cannot be used.
    """
    folder, since = os.path.dirname(os.path.abspath(path)), time.time()
    fields = {
        "source": store.sha256(source),
        "program": program.identity(),
        "options": options.identity(),
        "tail": tail,
    }
    try:
        known = store.find(fields, tail, folder)
        if known is not None:
            result, kept = known
            if result.changed:
                return result, str(kept)
            return replace(result, data=source), None
    except store.CacheError as error:
        warn(f"source cache: {error}")
    result = program.run(source, path, options)
    if result.changed:
        program.check(result.data, path)
    try:
        kept = store.keep(fields, tail, folder, result, since)
    except store.CacheError as error:
        warn(f"source cache: {error}; rewritten modules are kept in memory")
        return result, None
    return result, str(kept) if result.changed and kept else None


def _check_ops(result: Result) -> None:
    """A program of another build may know ops that this package does not."""
    from tfrewrite import ops

    if missing := {e["op"] for e in result.fused} - ops.names():
        raise RewriteError(f"{program.find()} writes ops that this package lacks: {min(missing)}")


def _code(name: str, result: Result, path: str, cached: bool) -> CodeType:
    """The code object of a rewritten source, with bytecode kept beside a file of the cache."""
    if cached:
        loader = importlib.machinery.SourceFileLoader(name, path)
        try:
            code = loader.get_code(name)
            if code is not None:
                return code
        except Exception:  # damaged bytecode, or the file is gone: the text in hand is good
            pass
    return program.check(result.data, path)


def _keep(result: ModuleResult) -> None:
    with _lock:
        results[result.name] = result


# ------------------------------------------------------------------ the two ways in
class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, options: Options, dry_run: bool) -> None:
        self.options, self.dry_run = options, dry_run

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _HUB_LOADER and not wanted(fullname) and not beside(fullname):
            return None
        spec = self._next(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        if fullname == _HUB_LOADER:
            spec.loader = _PatchingLoader(spec.loader)
        else:
            self.adopt(spec)
        return spec

    def _next(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """What the finders after this one say: editable installs have their own."""
        finders = list(sys.meta_path)
        for finder in finders[finders.index(self) + 1 if self in finders else 0 :]:
            find = getattr(finder, "find_spec", None)
            spec = find(fullname, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None

    def adopt(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Gives a modeling module's spec our loader, unless another tool already has one there."""
        loader = spec.loader
        if type(loader) is importlib.machinery.SourceFileLoader:
            spec.loader = RewritingLoader(loader.name, loader.path, self.options, self.dry_run)
        elif wanted(spec.name):
            kind = type(loader)
            reason = f"{spec.name} is loaded by {kind.__module__}.{kind.__qualname__}"
            _keep(ModuleResult(spec.name, "failed", reason))
            warn(f"{reason}, and runs as it is")


class _PatchingLoader(importlib.abc.Loader):
    """Runs the original loader of transformers.dynamic_module_utils, then patches the module."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        module.__loader__ = self._loader
        if spec is not None:
            spec.loader = self._loader
        self._loader.exec_module(module)
        _patch_hub_loader(module)

    def __getattr__(self, name: str) -> Any:  # get_source, get_filename, ...
        return getattr(self._loader, name)


class _View:
    """A module with some of its names replaced."""

    def __init__(self, module: Any, **replaced: Any) -> None:
        self.__dict__.update(replaced, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _spec_from_file_location(
    name: str, *args: Any, **kwargs: Any
) -> importlib.machinery.ModuleSpec | None:
    spec = importlib.util.spec_from_file_location(name, *args, **kwargs)
    finder = _finder
    if finder is not None and spec is not None and (wanted(name) or beside(name)):
        finder.adopt(spec)
    return spec


def _patch_hub_loader(module: ModuleType) -> None:
    function = getattr(module, "get_class_in_module", None)
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    base = getattr(module, "importlib", None)
    if isinstance(base, _View):
        return
    if base is not importlib or "spec_from_file_location" not in names:
        warn(f"this version of {_HUB_LOADER} is unknown: Hub code runs as it is")
        return
    util = _View(importlib.util, spec_from_file_location=_spec_from_file_location)
    module.importlib = _View(importlib, util=util)  # type: ignore[attr-defined]


# ------------------------------------------------------------------ on and off
_finder: Finder | None = None


def enable(
    rules: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    target: str | None = None,
    dry_run: bool = False,
) -> None:
    """Rewrites modeling modules from now on, as they are imported. Call it before importing them.

    rules: directories of rule files of your own. only, skip: op names. target: "auto", "host" or
    "cuda"; without it "host" on a machine without a GPU, where single linears pay too, else "auto".
    dry_run: do everything, report it, and run the originals. The environment variable TFR_DISABLE=1 makes this do nothing.
    Calling it again changes the options.
    """
    global _finder
    options = Options.make(rules, only, skip, target or _target_here())
    if disabled():
        return
    if options.rules:
        from tfrewrite import rules as rule_files

        for folder in options.rules:
            rule_files.add(folder)
    with _lock:
        disable()
        _finder = Finder(options, dry_run)
        sys.meta_path.insert(0, _finder)
    hub = sys.modules.get(_HUB_LOADER)
    if hub is not None:
        _patch_hub_loader(hub)
    early = sorted(n for n, m in list(sys.modules.items()) if wanted(n) and not _went_through(m))
    if early:
        warn(
            f"enable() came too late for {', '.join(early)}: already imported, so NOT rewritten. "
            "Call it before the model's module is imported, or use `python -m tfrewrite run`"
        )
        for name in early:
            _keep(ModuleResult(name, "failed", "imported before tfrewrite.enable()"))


def _target_here() -> str:
    """Looks for a GPU's device files: asking torch would start CUDA, which a fork does not survive.

    NVIDIA's driver, its passage from Windows, and AMD's.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    found = any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")))
    return "auto" if found and visible else "host"


def _went_through(module: ModuleType | None) -> bool:
    if not isinstance(getattr(module, "__loader__", None), RewritingLoader):
        return False
    known = results.get(getattr(module, "__name__", ""))
    return known is None or known.status != "dry run"


def disable() -> None:
    """Rewrites no further modules. Those already imported stay as they are."""
    global _finder
    with _lock:
        if _finder is not None and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        _finder = None
        hub = sys.modules.get(_HUB_LOADER)
        if isinstance(getattr(hub, "importlib", None), _View):
            hub.importlib = importlib  # type: ignore[union-attr]


def enabled() -> bool:
    return _finder is not None
