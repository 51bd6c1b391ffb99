"""Which public swarms there are: where, at which revision, with which licence and SHA-256.

`TABLES` is the one list; `SHA256SUMS` beside it holds the digests of their files. A file that is
not in it has not been seen by whoever wrote the entry, and is refused until somebody adds it.
"""

from dataclasses import dataclass, field
from pathlib import Path

KEYS = ("run", "run_id", "index")
"""Columns that join a pair of files, the first that both have."""
LABELS = ("", "Unnamed: 0", "run", "run_id", "name", "index")
"""Columns of a pair that are neither a domain nor a loss."""


@dataclass(frozen=True)
class TablePair:
    """A pair of files of a repository: mixtures, and losses of the same runs."""

    ratios: str
    metrics: str
    labels: dict[str, str]
    """Values of further columns of all its rows: set, parameters, tokens."""


@dataclass(frozen=True)
class PublicSwarm:
    """Tables of one repository at one commit."""

    about: str
    repository: str
    """Of GitHub: owner/name."""
    revision: str
    licence: str
    """SPDX identifier."""
    parts: tuple[TablePair, ...]
    ratio_prefix: str = ""
    """Begins the columns of mixtures in the repository's files, and is taken off."""
    metric_prefix: str = ""
    metric_suffix: str = ""
    available: dict[str, float] = field(default_factory=dict)
    """Tokens of each domain's text, where they are published."""

    def file_paths(self) -> list[str]:
        """Paths in the repository: the licence, and each part's."""
        return ["LICENSE", *(p for part in self.parts for p in (part.ratios, part.metrics))]

    def url(self, path: str) -> str:
        """Where a file of the repository lies."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.revision}/{path}"


GIB = {
    "arxiv": 56.21,
    "freelaw": 51.15,
    "nih_exporter": 1.89,
    "pubmed_central": 90.27,
    "wikipedia_en": 6.38,
    "dm_mathematics": 7.75,
    "github": 95.16,
    "philpapers": 2.38,
    "stackexchange": 32.20,
    "enron_emails": 0.88,
    "gutenberg_pg_19": 10.88,
    "pile_cc": 227.12,
    "ubuntu_irc": 5.52,
    "europarl": 4.59,
    "hackernews": 3.90,
    "pubmed_abstracts": 19.26,
    "uspto_backgrounds": 22.90,
}
"""Raw sizes of the Pile's parts (arXiv 2101.00027, Table 1)."""
BYTES_PER_TOKEN = 4
"""Of English text and usual vocabularies, roughly: no table of RegMix tells its tokens."""


def _regmix_pair(split: str, size: str, parameters_cell: str, tokens_cell: str) -> TablePair:
    labels = {"set": split, "parameters": parameters_cell, "tokens": tokens_cell}
    files = (f"data/{split}_mixture_{size}.csv", f"data/{split}_pile_loss_{size}.csv")
    return TablePair(*files, labels)


def _olmix_swarm(file_prefix: str, revision: str, about: str) -> PublicSwarm:
    files = (f"{file_prefix}_ratios.csv", f"{file_prefix}_metrics.csv")
    part = TablePair(*files, {"parameters": "3e7"})
    return PublicSwarm(about, "allenai/olmix", revision, "Apache-2.0", (part,))


TABLES = {
    "regmix": PublicSwarm(
        about="RegMix (arXiv 2407.01492): 17 domains of the Pile, 13 validation losses; 768 runs "
        "of 1M parameters (512 train, 256 test), 256 of 60M, 64 of 1B",
        repository="sail-sg/regmix",
        revision="b004d3a3f39846dcec6b3740da22bcd1ba95a5d0",
        licence="MIT",
        parts=(
            _regmix_pair("train", "1m", "1e6", "1e9"),
            _regmix_pair("test", "1m", "1e6", "1e9"),
            _regmix_pair("test", "60m", "6e7", "1e9"),
            _regmix_pair("test", "1B", "1e9", "2.5e10"),
        ),
        ratio_prefix="train_the_pile_",
        metric_prefix="metric/the_pile_",
        metric_suffix="_val_loss",
        available={name: round(gib * 2**30 / BYTES_PER_TOKEN, -6) for name, gib in GIB.items()},
    ),
    "olmix-dclm": _olmix_swarm(
        "dclm",
        "dd2900f8f1b67a248acded26fbd898190d796be9",
        "Olmix (arXiv 2602.12237): 24 topics of DCLM, 127 runs of 30M parameters, bits per byte of "
        "downstream tasks",
    ),
    "olmix-full": _olmix_swarm(
        "full_recomputation",
        "d6f852def112182441c43a5861528e29653ac675",
        "Olmix: 512 runs that mix all its sources anew, 30M parameters",
    ),
    "olmix-reuse": _olmix_swarm(
        "full_reuse_update_5_seed_0",
        "d6f852def112182441c43a5861528e29653ac675",
        "Olmix: 64 runs in which old ratios are one virtual domain, 30M parameters",
    ),
}
"""Public swarms by name."""
SHA256SUMS = Path(__file__).parent / "SHA256SUMS"
PACKAGED = ("regmix",)
"""Those that the package holds itself."""


def recorded_digests(name: str) -> dict[str, str]:
    """The recorded SHA-256 of a swarm's files, by path."""
    lines = SHA256SUMS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("  ", 1) for line in lines]
    return {p.removeprefix(f"{name}/"): d for d, p in pairs if p.startswith(f"{name}/")}


def packaged_table_or_path(path: Path) -> Path:
    """The file of a table: the path itself, or of a name in `PACKAGED` the package's own file."""
    if not path.exists() and str(path) in PACKAGED:
        return Path(__file__).parent / f"{path}.csv.gz"
    return path
