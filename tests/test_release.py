"""`make release` in a clone of this tree, up to what would be uploaded."""

import json
import re
import sys

import pytest
from repository import ROOT, git, run


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with the tree as it is here, committed."""
    git(tmp_path, "clone", "-q", "--no-hardlinks", "--no-tags", ROOT, "clone")
    folder = tmp_path / "clone"
    for name in git(ROOT, "ls-files", "-z", "--modified", "--others", "--exclude-standard").split(
        "\0"
    ):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
            (folder / name).chmod((ROOT / name).stat().st_mode)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "--allow-empty", "-m", "as here")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    return folder


def release(folder, version):
    return run("workflow/release.sh", sys.executable, version, cwd=folder)


def test_what_others_made_is_named_by_its_hash():
    for path in (ROOT / ".github/workflows").iterdir():
        text = path.read_text(encoding="utf-8")
        for used in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), used
        assert "\npermissions:\n  contents: read\n" in text
    (base,) = re.findall(r"^FROM (.*)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"[\w./:-]+@sha256:[0-9a-f]{64}", base)


@pytest.mark.workflow
def test_a_release_is_built_checked_and_tagged(clone):
    pytest.importorskip("build", reason="make setup EXTRAS=release")
    for name in ("cyclonedx_py", "twine"):
        pytest.importorskip(name, reason="make setup EXTRAS=release")
    done = release(clone, "7.8.9")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2
    names = sorted(path.name for path in (clone / "dist").iterdir())
    assert names == ["pike_mixing-7.8.9-py3-none-any.whl", "pike_mixing-7.8.9.tar.gz"]
    bills = {
        path.name: {
            part["name"]: part
            for part in json.loads(path.read_text(encoding="utf-8"))["components"]
        }
        for path in (clone / "build").glob("*.cdx.json")
    }
    assert {"numpy", "pike-mixing"} <= bills["pike_mixing-7.8.9.cdx.json"].keys()
    snakemake = bills["pipeline-7.8.9.cdx.json"]["snakemake"]
    assert snakemake["externalReferences"][0]["hashes"][0]["alg"] == "SHA-256"
    assert git(clone, "describe") == "v7.8.9\n"
    assert git(clone, "status", "--porcelain") == ""
    changed = git(clone, "show", "--format=")
    assert len(re.findall(r'^\+ *(?:__version__ = "7.8.9"|version: 7.8.9)$', changed, re.M)) == 3
    headings = re.findall("^## (.*)$", (clone / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(r"7\.8\.9 \(\d{4}-\d\d-\d\d\)", headings[1])
    assert "the tag v7.8.9 is there already" in release(clone, "7.8.9").stderr


@pytest.mark.slow
def test_a_release_that_fails_leaves_the_files_as_they_were(clone):
    assert "give three numbers" in release(clone, "1.2").stderr
    (clone / "pike_mixing/pyproject.toml").write_text("[", encoding="utf-8")
    assert "changes that are not committed" in release(clone, "7.8.9").stderr
    git(clone, "commit", "-qam", "broken")
    done = release(clone, "7.8.9")
    assert done.returncode == 1
    assert "are as before" in done.stderr
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "tag") == ""
