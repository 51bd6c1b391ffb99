"""Commands replace what they made, which Snakemake has deleted before."""

from pipeline.runtime import checksums

MIX = "results/runs/words/tiny/mix/seed0"


def test_changed_settings_replace_what_was_made(finished):
    """Of each kind of folder one; Snakemake deletes its manifest before its job runs again."""
    finished.set({"packing/validation_share": 0.3, "sources/easy/documents": 41})
    corpus = finished.path("results/corpora/letters/easy")
    before = (corpus / "train-00000.bin").read_bytes()
    finished.make(f"{MIX}/evaluations/manifest.json", f"{MIX}/probes/manifest.json")
    assert (corpus / "train-00000.bin").read_bytes() != before
    kept = (".made-by", checksums.REMEMBERED)
    assert not [p for p in finished.path("results").rglob(".*") if not p.name.endswith(kept)]


def test_a_file_of_somebody_stops_the_job_that_would_delete_it(finished):
    notes = finished.path("results/data/easy/notes.txt")
    notes.write_text("mine")
    finished.set({"sources/easy/documents": 41})
    finished.make("results/data/easy/manifest.json", code=1)
    assert "easy holds notes.txt, and no .made-by there says" in finished.logs()
    assert notes.read_text() == "mine"
    notes.unlink()
    finished.make("results/data/easy/manifest.json")
