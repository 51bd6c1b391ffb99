"""What a result was made from: what a manifest says, and what differs from it later."""

import hashlib
import json
import re
import sys
from pathlib import Path

import edits
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, checksums, code_fingerprint, made_from

MODULE = "pipeline.runtime.atomic_files"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A finished piece of work: one input of a stage, one file of the user's, two files made."""
    monkeypatch.chdir(tmp_path)
    return manifest(tmp_path / "results")


def manifest(folder, **facts):
    (folder / "checkpoints").mkdir(parents=True)
    for name in ("out.bin", "checkpoints/kept.bin"):
        (folder / name).write_bytes(b"abc")
    (folder / "in.json").write_text("{}")
    text = folder.parent / "text.txt"
    text.write_text("words")
    made_from.InputSnapshot(
        "theory",
        [MODULE],
        inputs=[folder / "in.json"],
        given=[text.relative_to(folder.parent)] if not facts else [],
    ).write_manifest(
        folder / atomic_files.MANIFEST,
        settings={"share": 0.1, "names": ["a"]},
        files=[folder / "out.bin", folder / "checkpoints/kept.bin"],
        facts=facts,
    )
    return folder / atomic_files.MANIFEST


def found(path, **today):
    known = checksums.DigestCache(path.with_name("memory.json"))
    return made_from.differences_from_today_if_finished(path, "theory", known, **today)


def test_a_manifest_says_what_was_made_from_what_by_what(work):
    written = json.loads(work.read_text())
    sums = {text: hashlib.sha256(text.encode()).hexdigest() for text in ("abc", "{}", "words")}
    assert written["stage"] == "theory"
    assert written["settings"] == {"share": 0.1, "names": ["a"]}
    assert written["files"]["out.bin"] == {"bytes": 3, "sha256": sums["abc"]}
    assert written["inputs"] == {"in.json": sums["{}"]}
    assert written["given"] == {"text.txt": sums["words"]}
    assert written["code"]["fingerprint"] == code_fingerprint.fingerprint(MODULE)
    assert written["code"]["commit"] == code_fingerprint.current_commit()
    assert written["versions"] == {}


def test_the_same_work_elsewhere_gives_the_same_manifest(tmp_path):
    first, second = manifest(tmp_path / "a" / "b", n=1), manifest(tmp_path / "c" / "d", n=1)
    assert first.read_bytes() == second.read_bytes()


def test_versions_are_of_what_the_stage_computes_with():
    finder = ["pike_mixing.finders.regmix"]
    assert {"numpy", "lightgbm"} <= code_fingerprint.package_versions("mixture", finder).keys()
    assert "torch" in code_fingerprint.package_versions("pretrain", ["pipeline.training.train"])
    # A copy of text is the same by any version of NumPy, a drawn one is not.
    assert code_fingerprint.package_versions("download", ["pipeline.data.local_files"]) == {}
    assert "numpy" in code_fingerprint.package_versions("download", ["pipeline.data.synthetic"])


def test_versions_of_another_interpreter_are_its_own(tmp_path, monkeypatch):
    def of(interpreter=None):
        modules = ["pipeline.training.train"]
        return code_fingerprint.package_versions("pretrain", modules, interpreter)

    versions = """echo '{"torch": "0.1", "numpy": "0.2"}'"""
    edits.program("python", "echo Welcome", versions)(tmp_path)
    edits.program("mute")(tmp_path)
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "python"), "./python"):
        assert of(path) == {"torch": "0.1", "numpy": "0.2"}
    assert of(sys.executable) == of() != of("./python")
    assert of("./mute") is of("/not/here") is None


@pytest.mark.parametrize(
    ("today", "told"),
    [
        ({"settings": {"share": 0.2, "names": ["a"]}}, "settings.share was 0.1, is 0.2"),
        ({"settings": {"share": 0.1}}, 'settings.names was ["a"], is not set'),
        ({"code": "another"}, "code was {code}, is another"),
        ({"versions": {"torch": "9"}}, "versions.torch was not set, is 9"),
        ({"inputs": ["results/more.json"]}, "inputs.more.json was not set, is an input"),
        ({"given": []}, "given.text.txt was {words}, is not set"),
    ],
)
def test_what_would_be_another_today_is_named(work, today, told):
    recorded = json.loads(work.read_text())
    told = told.format(code=recorded["code"]["fingerprint"], words=recorded["given"]["text.txt"])
    assert [str(one) for one in found(work, **today)] == [told]


@pytest.mark.parametrize(
    ("today", "told"),
    [
        ("2.13.0", []),
        ("2.13.0+cu130", []),
        ("2.13.1+cpu", ["versions.torch was 2.13.0, is 2.13.1"]),
    ],
)
def test_builds_of_one_release_for_other_devices_are_alike(work, today, told):
    edits.values(work.name, {"versions": {"torch": "2.13.0+cpu"}})(work.parent)
    assert [str(one) for one in found(work, versions={"torch": today})] == told


UPSTREAM = {
    "stage": "pack",
    "files": {"train.bin": {"bytes": 1, "sha256": "a"}, "README.md": {"bytes": 1, "sha256": "b"}},
    "fingerprint": "f",
    "licence": "CC0",
}


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    """A stage at work: its own code, a manifest, a plain file, a file of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    edits.put("worker_of_tests.py", "X = 1\n")(tmp_path)
    edits.put("manifest.json", json.dumps(UPSTREAM))(tmp_path)
    edits.put("a.model", "pieces")(tmp_path)
    edits.put("text.txt", "words")(tmp_path)

    # Another test had a module of this name elsewhere.
    code_fingerprint._folder_holding_importable_package.cache_clear()
    code_fingerprint.module_path.cache_clear()
    code_fingerprint.fingerprint.cache_clear()

    def begun(stage="evaluate"):
        given, inputs = [Path("text.txt")], [Path("manifest.json"), Path("a.model")]
        taken = made_from.InputSnapshot(stage, ["worker_of_tests"], inputs=inputs, given=given)
        facts = {"run": "r", "steps": [1]}
        return taken, lambda: taken.write_manifest(
            Path("out.json"), settings={"a": 1}, files=[], facts=facts
        )

    return begun


@pytest.mark.parametrize(
    ("stage", "name", "content", "refused"),
    [
        ("evaluate", "worker_of_tests.py", "X = 2\n", True),
        ("evaluate", "worker_of_tests.py", "X = 1  # a remark\n", False),
        ("evaluate", "worker_of_tests.py", None, True),
        # Nobody waits days to edit a file: a training vouches for what it began with.
        ("pretrain", "worker_of_tests.py", "X = 2\n", False),
        ("evaluate", "a.model", "others", True),
        ("evaluate", "a.model", "pieces", False),
        ("evaluate", "text.txt", "other words", True),
        ("evaluate", "text.txt", None, True),
        ("pretrain", "manifest.json", json.dumps(UPSTREAM | {"fingerprint": "g"}), True),
        # What is recorded with a corpus is no part of it, but the database shows it.
        ("pretrain", "manifest.json", json.dumps(UPSTREAM | {"licence": "MIT"}), False),
        ("database", "manifest.json", json.dumps(UPSTREAM | {"licence": "MIT"}), True),
    ],
)
def test_what_changes_while_a_stage_works_is_not_vouched_for(
    at_work, stage, name, content, refused
):
    taken, finish = at_work(stage)
    before = taken.code["code"]["fingerprint"]
    Path(name).unlink()
    if content is not None:
        Path(name).write_text(content)
    if refused:
        again = f"{name} changed while `pike {stage}` worked: run the same command again"
        with pytest.raises(InputError, match=re.escape(again)):
            finish()
        assert not Path("out.json").exists()
    else:
        finish()
        written = json.loads(Path("out.json").read_text())
        assert written["code"]["fingerprint"] == before
        assert written["given"] == {"text.txt": hashlib.sha256(b"words").hexdigest()}


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        (lambda _: None, True),
        (edits.values("manifest.json", {"licence": "MIT", "files/README.md/sha256": "c"}), True),
        (edits.remove("a.model"), True),
        (edits.values("manifest.json", {"files/train.bin/sha256": "c"}), False),
        (edits.put("a.model", "others"), False),
        (edits.put("text.txt", "other words"), False),
        (edits.put("worker_of_tests.py", "X = 2\n"), False),
    ],
)
def test_work_stands_where_all_that_it_was_made_from_comes_out_the_same(
    at_work, tmp_path, change, stands
):
    _, finish = at_work()
    finish()
    out, first = Path("out.json"), json.loads(Path("out.json").read_text())
    # As the workflow does, before Snakemake deletes it.
    made_from.keep_manifest_copy(out)
    out.unlink()
    change(tmp_path)
    code_fingerprint.fingerprint.cache_clear()
    taken, _ = at_work()
    assert taken.restore_manifest_if_unchanged(out, {"a": 1}) is stands
    assert out.exists() is stands
    if stands:
        again = json.loads(out.read_text())
        assert again.pop("inputs")["manifest.json"] == atomic_files.sha256(Path("manifest.json"))
        assert again == {key: one for key, one in first.items() if key != "inputs"}
    # Once: it is no word for another time.
    out.unlink(missing_ok=True)
    assert not taken.restore_manifest_if_unchanged(out, {"a": 1})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["not set", "a", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)


@given(VALUES, VALUES)
def test_two_records_differ_where_their_json_does(before, now):
    differs = atomic_files.canonical_json(before) != atomic_files.canonical_json(now)
    assert bool(made_from.record_differences({"x": before}, {"x": now})) == differs
