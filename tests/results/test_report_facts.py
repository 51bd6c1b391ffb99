from pipeline.results import report_facts


def test_decisions_that_differ_from_the_paper_are_listed(tmp_path, monkeypatch):
    page = tmp_path / "decisions.md"
    page.write_text(
        "# Decisions\n\nDeviation from the paper: not in a section.\n\n"
        "## 0001 Counts\n\nDeviation from the paper: `b < w` by\n[other](a.md) means.\n\nMore.\n\n"
        "## 0002 Silent\n\nMore.\n\n"
        "## 0003 Last\n\nDeviation from the paper: another seed."
    )
    monkeypatch.setattr(report_facts, "DECISIONS", page)
    assert report_facts.deviation_rows() == [
        {"title": "0001 Counts", "what": "<code>b &lt; w</code> by other means."},
        {"title": "0003 Last", "what": "Another seed."},
    ]
    monkeypatch.setattr(report_facts, "DECISIONS", tmp_path / "absent")
    assert report_facts.deviation_rows() == []


def test_the_decisions_of_the_project_are_read():
    found = report_facts.deviation_rows()
    assert found[0]["title"] == "0001 Counts by largest remainder"
    assert len(found) == report_facts.DECISIONS.read_text().count("\nDeviation from the paper: ")
