"""`verify --symbolic`: equal for every rewritten file, different for every seeded wrong rewrite."""

import json
import subprocess
from pathlib import Path

import corpus
import pytest
import wrong_rewrites

SAMPLE = """qwen3 gemma3 t5 gpt2 olmo2 llama phi3 cohere gpt_neox mixtral deepseek_v3 glm4 gemma mistral
granite bert starcoder2 persimmon qwen2_moe siglip""".split()
PLACES = 6  # of each kind, over all files


def verify(*args) -> subprocess.CompletedProcess:
    return subprocess.run(
        [corpus.binary(), "verify", "--symbolic", *map(str, args)], capture_output=True, text=True
    )


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """original file, rewritten text"""
    found = []
    for name in SAMPLE:
        path = corpus.models_dir() / name / f"modeling_{name}.py"
        data = subprocess.run([corpus.binary(), "-q", path], stdout=subprocess.PIPE).stdout
        found.append((path, wrong_rewrites.Text(data)))
    return found


def test_every_file_is_equal():
    done = verify("--json", corpus.models_dir())
    document = json.loads(done.stdout)
    different = [
        f"{f['path']}:{e['line']}: {e['class']}.{e['function']}: {e['difference']}"
        for f in document["files"]
        for e in f["functions"]
        if not e["equal"]
    ]
    assert not different, "\n".join(different[:40])
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(document["files"]) == corpus.FILES
    changed = [e for f in document["files"] for e in f["functions"] if e["changed"]]
    assert len(changed) > 1000, len(changed)


def places(kind, texts):
    """PLACES mutants, one of each file in turn."""
    queues = [(path, wrong_rewrites.mutants(kind, text, PLACES)) for path, text in texts]
    found = []
    while queues and len(found) < PLACES:
        path, mutants = queues.pop(0)
        data = next(mutants, None)
        if data is not None:
            found.append((path, data))
            queues.append((path, mutants))
    return found


def seeded(kind, texts, folder: Path):
    found = places(kind, texts)
    assert found, "no place for this kind"
    for number, (original, data) in enumerate(found):
        path = folder / f"{number}_{original.name}"
        path.write_bytes(data)
        yield original, path, verify("--against", original, path)


@pytest.mark.parametrize("kind", wrong_rewrites.WRONG)
def test_wrong_rewrite_is_different(kind, texts, tmp_path):
    for original, path, done in seeded(wrong_rewrites.WRONG[kind], texts, tmp_path):
        told = f"{kind} of {original}, {path}: {done.stdout}{done.stderr}"
        assert done.returncode == 1, told
        assert f"DIFFERENT at {path}:" in done.stdout, told


@pytest.mark.parametrize("kind", wrong_rewrites.EQUAL)
def test_equal_change_is_equal(kind, texts, tmp_path):
    for original, path, done in seeded(wrong_rewrites.EQUAL[kind], texts, tmp_path):
        assert done.returncode == 0, f"{kind} of {original}, {path}: {done.stdout}{done.stderr}"


def test_there_are_enough_kinds():
    assert len(wrong_rewrites.WRONG) >= 60
