"""Every modeling module imports with the hook on, and is the rewritten one where it should be.

Modules that do not import without the hook either (a missing package) are left out by comparison
and printed.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

import corpus
import pytest

HERE = Path(__file__).resolve().parent
PROCESSES = 2
BATCH = 300  # modules that share a process: one for each core, as importing torch takes 6 s


def module_names() -> list[str]:
    names = []
    for file in corpus.modeling_files(corpus.models_dir()):
        names.append("transformers.models." + file.removesuffix(".py").replace("/", "."))
    return names


def import_batch(names: list[str], hook: bool, environment: dict) -> dict[str, dict]:
    """Results by module. A process that dies is charged to the module it was importing; the rest
    goes on in another one."""
    results: dict[str, dict] = {}
    left = list(names)
    while left:
        command = [
            sys.executable,
            str(HERE / "import_all.py"),
            *(["--hook"] if hook else []),
            *left,
        ]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for line in done.stdout.splitlines():
            result = json.loads(line)
            results[result["module"]] = result
        left = [n for n in left if n not in results]
        if left:
            detail = " ".join(done.stderr.split())[-300:]
            results[left[0]] = {
                "module": left[0],
                "rewritten": False,
                "error": f"process ended with status {done.returncode}: {detail}",
            }
            left = left[1:]
    return results


def import_all(names: list[str], hook: bool, environment: dict) -> dict[str, dict]:
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    results: dict[str, dict] = {}
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        for part in pool.map(lambda batch: import_batch(batch, hook, environment), batches):
            results.update(part)
    return results


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A cache of its own, so that nothing kept from another program is imported here."""
    folder = tmp_path_factory.mktemp("cache")
    path = os.pathsep.join(
        filter(None, [str(HERE.parents[1] / "python"), os.environ.get("PYTHONPATH")])
    )
    return {
        **os.environ,
        "TFR_BIN": corpus.binary(),
        "TFR_CACHE_DIR": str(folder),
        "XDG_CACHE_HOME": str(folder),
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }


@pytest.fixture(scope="session")
def imported(environment):
    return import_all(module_names(), True, environment)


def test_every_module_imports(imported, environment):
    names = module_names()
    assert len(names) == corpus.FILES and sorted(imported) == sorted(names)
    failed = {n: r["error"] for n, r in imported.items() if r["error"]}
    plain = import_all(sorted(failed), False, environment)
    broken = {}
    for name, error in sorted(failed.items()):
        if plain[name]["error"] == error:
            print(f"left out, fails without the hook too: {name}: {error}")
        else:
            broken[name] = f"{error} (without the hook: {plain[name]['error'] or 'imports'})"
    assert not broken, "\n".join(f"{n}: {e}" for n, e in broken.items())
    assert len(failed) < 30, "hardly anything was imported"


def test_what_is_fused_is_what_was_imported(imported, tmp_path):
    """The hook gave the rewritten module for each file that the program changes, and the plain
    one for the others."""
    source = corpus.models_dir()
    status, entries, errors = corpus.rewrite_tree(source, tmp_path / "models")
    assert status == 0, errors
    wrong = []
    for file, entry in entries.items():
        result = imported["transformers.models." + file.removesuffix(".py").replace("/", ".")]
        if not result["error"] and result["rewritten"] != entry["changed"]:
            wrong.append(
                f"{file}: changed {entry['changed']}, imported rewritten {result['rewritten']}"
            )
    assert not wrong, "\n".join(wrong)


# ------------------------------------------------------------------ the harness itself
def test_failures_are_seen(tmp_path, environment):
    """A module that raises, one that ends the process, and one that imports."""
    (tmp_path / "raises.py").write_text("raise ValueError('broken')\n")
    (tmp_path / "ends.py").write_text("import os\nos._exit(5)\n")
    (tmp_path / "works.py").write_text("print('noise')\n")
    path = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    results = import_all(["raises", "ends", "works"], False, {**environment, "PYTHONPATH": path})
    assert results["raises"]["error"] == "ValueError: broken"
    assert "status 5" in results["ends"]["error"]
    assert results["works"] == {"module": "works", "error": None, "rewritten": False}
