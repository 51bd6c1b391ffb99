"""Which jobs on this machine are forks of a process that has imported their modules."""

import uuid
from collections import Counter
from collections.abc import Iterable

from pipeline.planning import records, stages
from pipeline.planning.profile import TRAINS, Profile
from pipeline.runtime import fork_server

GROUPS = (
    TRAINS,
    ("database_of_selection", "database", "table", "figure", "article", "report"),
)
"""Rules whose jobs import the same packages."""
FEWEST = 4
"""Jobs from which on a server takes less time than it saves."""


def start(rules: Iterable[str], profile: Profile, prefix: str) -> str:
    """Starts a server for each group of rules with jobs enough. It ends with this process.

    Args:
        rules: Rule of each job that will run.
        profile: What is set for them: rules of accelerators and of other interpreters have none.
        prefix: Shell commands that stand before each job's.

    Returns:
        What stands before every job's command line, for a shell; nothing without a server.
    """
    jobs, name = Counter(rules), ""
    for group in GROUPS if fork_server.possible() else ():
        own = [rule for rule in group if _is_ordinary(rule, profile)]
        if sum(jobs[rule] for rule in own) >= FEWEST:
            name = name or f"pike-{uuid.uuid4().hex}"
            commands = (records.MADE[rule].stage or rule for rule in own)
            places = {c: stages.STAGES[c].partition(":")[0] for c in commands}
            fork_server.start(name, places, prefix)
    return fork_server.words(name) if name else ""


def spawn(words: str = "") -> str:
    """A shell function that becomes the command it is given, with words before it (`start`)."""
    why = "$1 is not here: in a container, set PIKE_IMAGE to its image; elsewhere, unset it"
    return f'spawn() {{ command -v "$1" > /dev/null || {_told(why)}; exec {words} "$@"; }}; '


def refuse() -> str:
    """The same of a workflow that has not begun: Snakemake begins no module by itself."""
    why = (
        "this workflow has not begun: a Snakefile that takes it as the module pike says "
        "'onstart: pike.onstart()'"
    )
    return f"spawn() {_told(why)}; "


def _told(why: str) -> str:
    return f'{{ echo "{why}" >&2; exit 2; }}'


def _is_ordinary(rule: str, profile: Profile) -> bool:
    device = profile.of(rule, "device", "auto")
    return device in ("auto", "cpu") and not profile.of(rule, "python")
