"""All modeling files of transformers: rewritten soundly, idempotently, with the golden counts."""

import json
from types import SimpleNamespace

import check_file
import corpus
import pytest
import reasons


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The corpus rewritten once, and its output rewritten once more."""
    first, second = (
        tmp_path_factory.mktemp("corpus") / name / "models" for name in ("first", "second")
    )
    source = corpus.models_dir()
    status, entries, errors = corpus.rewrite_tree(source, first)
    again_status, again, again_errors = corpus.rewrite_tree(first, second)
    return SimpleNamespace(
        source=source,
        first=first,
        second=second,
        status=status,
        entries=entries,
        errors=errors,
        again_status=again_status,
        again=again,
        again_errors=again_errors,
        files=corpus.modeling_files(source),
    )


def test_corpus_is_complete(run):
    assert len(run.files) == corpus.FILES
    assert sorted(run.entries) == run.files, "a file without a report"
    assert corpus.modeling_files(run.first) == run.files, "a file without an output"


def test_exit_status(run):
    assert run.status == 0, run.errors[-2000:]


def test_every_refusal_says_what_the_code_would_need(run):
    refused = [(path, r) for path, entry in run.entries.items() for r in entry["refused"]]
    assert len(refused) > 50
    bad = {(path, fault) for path, r in refused if (fault := reasons.fault(r["reason"]))}
    assert not bad, sorted(bad)


def test_something_is_fused(run):
    """All checks below hold for a program that does nothing; this one does not."""
    changed = [f for f, e in run.entries.items() if e["changed"]]
    assert len(changed) > 300, len(changed)


def test_sound(run):
    """Bytes, comments, decorators, signatures, statements, calls; and Python's own parser takes
    every output."""
    found = []
    for name in run.files:
        old, new = (run.source / name).read_bytes(), (run.first / name).read_bytes()
        found += [f"{name}: {what}" for what in check_file.problems(old, new, run.entries[name])]
    assert not found, f"{len(found)} problems\n" + "\n".join(found[:60])


def test_second_pass_changes_nothing(run):
    assert run.again_status == 0, run.again_errors[-2000:]
    assert sorted(run.again) == run.files
    changed = [
        f
        for f in run.files
        if run.again[f]["changed"]
        or run.again[f]["fused"]
        or (run.first / f).read_bytes() != (run.second / f).read_bytes()
    ]
    assert changed == []


def test_golden_counts(run):
    """A match lost or gained fails; renew with corpus.py --write and review the diff."""
    golden = json.loads(corpus.golden_path().read_text())
    lines = corpus.differences(golden, corpus.counts(run.entries))
    assert not lines, f"{len(lines)} differences from {corpus.golden_path().name}\n" + "\n".join(
        lines
    )
