"""Code blocks of the documentation, and how each command in them is tried."""

import re
import shlex

from repository import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("config", "results")),
]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

HOW = [
    (r"make ", "make"),
    (r"cp config/config\.yaml mine\.yaml", "new"),
    (
        r"PIKE_IMAGE=.*",
        "not run: test_deployed.py has a container in name",
    ),
    (r"\.venv/bin/pike (COMMAND --help|methods NAME)", "not run: capitals stand for a name"),
    (r"(\.venv/bin/)?snakemake --report .*", "finished"),
    (
        r"\.venv/bin/snakemake --profile workflow/profiles/slurm .*",
        "not run: test_profiles.py has the profile, test_paper.py the table",
    ),
    (r"\.venv/bin/snakemake --profile workflow/profiles/kubernetes", "not run: test_kubernetes.py"),
    (
        r"(uvx --from|pipx run --spec) .*",
        "not run: it downloads SciPy; test_trial.py has the command",
    ),
    (r"(\.venv/bin/)?snakemake ", "new"),
    (r"\.venv/bin/pike( methods.*| plan .*| scenarios .*)?", "new"),
    (r"\.venv/bin/pike query .* --database changed/.*", "not run: test_archive.py has one table"),
    (r"git (diff|show|worktree) ", "not run: git"),
    (r"\.venv/bin/pike (advise|claims|corpus|query|tables|verify|watch|why)( .*)?", "finished"),
    (r"\.venv/bin/pike-mixing compare results/own/pike\.duckdb .*", "finished"),
    (r"pike-mixing (compare|noise) ", "compared"),
    (r"pike-mixing bench( .*)?", "not run: minutes; test_bench.py scores the page's method"),
    (r"pike-mixing swarms \S+", "not run: GitHub; test_swarms.py has files"),
    (r"(\.venv/bin/)?pike-mixing export transformers ", "exported"),
    (r"(python -m pike_mixing|pike-mixing) ", "library"),
    (
        r"\.venv/bin/pike registered ",
        "not run: test_registration_outcomes.py has a database of all its runs",
    ),
    (r"\.venv/bin/pike crate ", "not run: test_crate.py reads one with rocrate"),
    (r"\.venv/bin/pike (record|restore) ", "not run: test_archive.py"),
    (r"\.venv/bin/pike domains ", "not run: test_domains.py"),
    (r"\.venv/bin/pike theory ", "not run: test_theory_records.py"),
    (r"eval ", "not run: test_cli.py asks for completions"),
    (r"\.venv/bin/pike export ", "not run: test_hf_export.py, where transformers is installed"),
    (r"\.venv/bin/pike track ", "not run: test_track.py sends to each tracker that is installed"),
    (r"lm_eval ", "not run: test_oracle.py asks its back end `hf`, where lm_eval is installed"),
    (r"\.venv/bin/pike pretrain ", "not run: test_throughput.py trains with --profile"),
    (r"(HF_HUB_OFFLINE=1 )?\.venv/bin/pike fetch ", "not run: the Hub; test_fetch.py has a copy"),
    (r"\.venv/bin/torchrun ", "not run: test_distributed.py starts several processes"),
    (r"\.venv/bin/python -m benchmarks\.stream_resumes", "not run: PyPI; test_benchmarks.py"),
    (
        r"\.venv/bin/python -m pip (freeze|install) ",
        "not run: it lists releases, and installs them",
    ),
    (r"pip install ", "not run: test_wheel.py builds the wheel and uses it"),
    (r"source \.venv/bin/activate", "not run: it sets the PATH of a shell"),
    (r"git clone ", "not run: the page's own address"),
    (r"gcloud ", "not run: a cloud"),
    (r"(podman|apptainer) ", "not run: a builder of containers"),
]
"""The first pattern at the beginning of a command says where it is tried.

- make: `make -n` knows the targets
- new: in a copy of the tree in which nothing is made; the workflow as a dry run
- finished: in a tiny finished experiment, under its names of runs
- exported: beside files as the page names them, by test_export.py
- library: beside tables as the page describes them
- compared: beside samples, tables and records as the page describes them
"""


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The commands of a page's shell blocks, without remarks, and those within its sentences."""
    text = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    words = [re.sub(r"(^|\s)# .*", "", line).strip() for line in text.splitlines()]
    # Where a page has said to activate the environment.
    words = [re.sub(r"^(?=(pike|snakemake) )", ".venv/bin/", line) for line in words]
    typed = [span for span in spans(page) if re.match(r"\.venv/bin/|make \S|snakemake ", span)]
    return [" ".join(line.split()) for line in [*words, *typed] if line]


def spans(page: str) -> list[str]:
    """What a page's sentences and tables have in the type of code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def how(command: str) -> str:
    """How a command is tried; empty where nothing says."""
    for pattern, place in HOW:
        if re.match(pattern if pattern.endswith(" ") else pattern + "$", command):
            return place
    return ""


def tried(place: str) -> list[tuple[str, str]]:
    """Pages and commands that are tried in a place."""
    return [(n, c) for n in NAMES for c in commands(n) if how(c) == place]


def words(command: str) -> list[str]:
    """The words of a command behind `.venv/bin/pike`."""
    return shlex.split(command.partition(".venv/bin/pike")[2])
