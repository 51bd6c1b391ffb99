"""What is used of Snakemake that its documentation does not describe: at most five parts."""

import re

from repository import ROOT

DOCUMENTED = {"source_path", "cores", "include"}
"""Attributes of `workflow` that Snakemake's documentation names; `include` is its directive."""
PARTS = {
    "workflow.config_settings": "options apart from files: results record what they were made with",
    "workflow.resource_settings": "devices of a profile: memory and time of all jobs follow",
    "workflow.dag_settings": "what is forced begins anew; --rerun-triggers; a job's own process",
    "workflow.scheduler": "a limit on starts costs a third of a core, and has no value for none",
    "plugin.executor": "the Slurm plugin forgets jobs while its controller is away",
}
OWN = ROOT / "pipeline/planning/snakemake_internals.py"
RULES = [*ROOT.glob("Snakefile"), *(ROOT / "workflow").glob("Snakefile")]
RULES += (ROOT / "workflow").rglob("*.smk")


def of_workflow(text):
    return {f"workflow.{name}" for name in re.findall(r"\b_?workflow\.(\w+)", text)}


def imported(text):
    found = re.findall(r"^\s*(?:from|import) (snakemake\S*)", text, re.MULTILINE)
    # What plugins raise is of the documented interface of plugins.
    return {*found} - {"snakemake.utils", "snakemake_interface_common.exceptions"}


def test_five_parts_of_snakemake_are_used_beside_its_documentation_each_with_a_reason():
    text = OWN.read_text(encoding="utf-8")
    used = of_workflow(text) | set(re.findall(r"\bplugin\.executor\b", text))
    assert used == PARTS.keys()
    assert len(PARTS) <= 5
    assert re.findall(r"\bsnakemake_interface_\w+(?:\.\w+)+", text) == [
        "snakemake_interface_executor_plugins.registry"
    ]


def test_no_other_file_uses_one():
    for path in RULES:
        text = path.read_text(encoding="utf-8")
        used = of_workflow(text) - {f"workflow.{name}" for name in DOCUMENTED}
        assert (used, imported(text)) == (set(), set()), path
        # Private of whatever Snakemake gives, such as `rules` or `shell`.
        assert not re.findall(r"\.(?:_\w+|dag|globals|modifier)\b", text), path
    for path in (ROOT / "pipeline").rglob("*.py"):
        if path != OWN:
            text = path.read_text(encoding="utf-8")
            assert not imported(text), path
            assert not re.findall(r"import_module\(\W*snakemake", text), path
