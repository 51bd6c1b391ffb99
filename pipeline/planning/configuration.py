"""What a configuration holds: its sections; the settings of the stages are defined by these.

`planning.schema` writes workflow/schemas/config.schema.yaml from these classes.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Discriminator

from pike_mixing.setting_limits import Limits, NonNegativeInt, Proportions
from pipeline.data.corpus_settings import (
    GivenTokenizer,
    HubTokenizer,
    Packing,
    TokenizerTrainingOptions,
)
from pipeline.data.file_settings import HuggingFaceSettings, LocalSettings
from pipeline.data.python_stdlib import PythonSource
from pipeline.data.synthetic import SyntheticSource
from pipeline.runtime.validate_settings import OrOne
from pipeline.settings import Commit, Model, Training
from pipeline.tasks.evaluation_settings import EvaluationOptions, Probe
from pipeline.tasks.prepared_task import TaskOptions
from pipeline.tasks.task import Formulation

Board = Literal["no target", "target"]
BOARDS: tuple[Board, Board] = ("no target", "target")
Level = Annotated[float, Limits(above=0, below=1)]


@dataclass(frozen=True)
class Hypothesis:
    """A method's target loss minus another's lies below, or above, a margin."""

    method: str
    """The method in question."""
    against: str
    """The other one."""
    board: Board
    """Which scenarios: those with a target, or those without."""
    direction: Literal["lower", "higher"]
    """On which side of the margin the difference is expected."""
    expected: float
    """The difference that is expected, nats."""
    margin: float = 0.0
    """The difference that it is tested against, nats."""


@dataclass(frozen=True)
class Predictions:
    """Hypotheses that are tested together."""

    hypotheses: dict[str, Hypothesis]
    """What is expected, by name."""
    level: Level = 0.05
    """Level of all hypotheses together, by Holm's procedure."""


ABSENT: Any = None
"""Default of what may be left out, but cannot be null."""

Name = Annotated[
    str,
    Limits(
        pattern="[a-z0-9][a-z0-9-]{0,59}",
        means="a name of lower-case letters, digits and hyphens, 60 at most",
    ),
]
Names = Annotated[tuple[str, ...], Limits(filled=True, distinct=True)]
Seeds = Annotated[tuple[NonNegativeInt, ...], Limits(filled=True, distinct=True)]
Roles = dict[str, Annotated[Names, OrOne]]
_PATH = Limits(
    pattern="[A-Za-z0-9_./][A-Za-z0-9_./-]*", means="a path of letters, digits and _ . / -"
)
Folder = Annotated[str, _PATH]
Filled = Limits(filled=True)


@dataclasses.dataclass(frozen=True)
class TrainedTokenizer(TokenizerTrainingOptions):
    """A model trained on the sources' training documents."""

    sources: Names
    """Sources whose training documents it is trained on."""


@dataclasses.dataclass(frozen=True)
class TaskQuestions(TaskOptions):
    """Downstream tasks; an entry stands for all combinations of tasks, shots and formulations."""

    tasks: Names
    """Names: arc_easy, csqa, hellaswag, piqa, hellaswag_de and other languages."""
    shots: Annotated[tuple[NonNegativeInt, ...], Limits(filled=True, distinct=True)]
    """Numbers of demonstrations in front of every question."""
    formulations: Annotated[tuple[Formulation, ...], Limits(filled=True, distinct=True)]
    """cf scores a text that is not shown, mcf a letter, hyb a text that is shown."""


@dataclasses.dataclass(frozen=True)
class RunsOf:
    """Some runs of a scenario."""

    methods: Names = ABSENT
    """Only runs of these methods; absent: all."""
    models: Names = ABSENT
    """Only runs of these models; absent: all."""
    seeds: Seeds = ABSENT
    """Only runs of these seeds; absent: all."""


@dataclasses.dataclass(frozen=True)
class ScenarioEvaluation(EvaluationOptions):
    """What is asked of every model of a scenario."""

    tasks: tuple[TaskQuestions, ...] = ABSENT
    """Each entry stands for all combinations of its tasks, shots and formulations."""
    curves: RunsOf = ABSENT
    """Runs for which `checkpoints: all` holds; of the others the last is evaluated. Absent: all."""


@dataclasses.dataclass(frozen=True)
class Swarm:
    """Small runs on fixed mixtures, the first of equal weights, the others drawn."""

    runs: Annotated[int, Limits(at_least=1, at_most=1000)]
    """Number of runs."""
    seed: NonNegativeInt
    """Seed of the runs and of the draws."""
    concentration: Annotated[float, Limits(at_least=0.01, at_most=1e6)] = 1.0
    """Dirichlet concentration: 1 draws evenly from all mixtures, more stays near equal weights."""
    model: str = ABSENT
    """Name of the model; absent: that of the run that asks."""
    training: str = ABSENT
    """Name of the training recipe; absent: the scenario's."""


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A mixture, and the runs that it is found from: a swarm, methods, or both."""

    finder: str
    """How it is found: regmix, mixing-law, gaussian-process, scheffe, mde, best or average."""
    swarm: str = ABSENT
    """Swarm whose runs it is found from."""
    methods: Names = ABSENT
    """Methods whose runs it is found from."""
    model: str = ABSENT
    """Name of their model; absent: the swarm's or that of the run that asks."""
    seeds: Seeds = ABSENT
    """Seeds of their runs, each with all of them; absent: the swarm's or the asking run's."""
    options: dict[str, Any] = ABSENT
    """The finder's settings."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Runs of one scenario that differ in a method's settings: the best gives them to others."""

    methods: Names
    """Methods whose runs are compared by the mean of the domains' validation losses, the mildest
    first: it wins where a later one is better by no more than a standard error over the seeds.
    Absent: those that `of` and `values` make."""
    settings: Names
    """Settings that the best gives to a method with `grid: NAME`; absent: those of `values`."""
    of: str = ABSENT
    """Instead of `methods`: the method whose settings vary."""
    values: dict[str, tuple[Any, ...]] = ABSENT
    """Instead of `settings`: values of each that varies, the first of all in one run, and so on."""
    model: str = ABSENT
    """Name of their model; absent: that of the run that asks."""
    seeds: Seeds = ABSENT
    """Seeds of their runs, over which losses are averaged; absent: that of the run that asks."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A set of domains with all that runs on them share."""

    domains: Names
    """Names of sources, in the order of every table."""
    tokenizer: str
    """Name of a tokenizer."""
    training: str
    """Name of a training recipe."""
    evaluation: str
    """Name of an evaluation."""
    probe: str = ABSENT
    """Name of a probe; absent: none."""
    about: str = ABSENT
    """One sentence for the report."""
    methods: dict[str, dict[str, Any]] = ABSENT
    """Settings of methods that differ in this scenario, laid over the method's own."""
    target: Proportions = ABSENT
    """Weight of each domain in the mean loss, by which methods, mixtures and grids are judged;
    absent: equal weights."""
    like: str = ABSENT
    """Another scenario, which gives what this one does not set: the same at another budget."""


@dataclasses.dataclass(frozen=True)
class TaskFiles:
    """Where a downstream task comes from, if not from the Hub at the pinned revision."""

    revision: Commit = ABSENT
    """Commit to fetch instead of the pinned one."""
    files: Annotated[dict[str, str], Filled] = ABSENT
    """The user's own files of the data set, by split."""


@dataclasses.dataclass(frozen=True)
class Runs:
    """All combinations of scenarios, models, methods and seeds."""

    scenarios: Names
    """Names of scenarios."""
    models: Names
    """Names of models."""
    methods: Names
    """Names of methods; absent: all but those of `without`."""
    seeds: Seeds
    """Seeds of initial weights, of the order of rows and of a method's draws."""
    without: Names = ABSENT
    """Methods to leave out where `methods` is absent."""


@dataclasses.dataclass(frozen=True)
class Selection(RunsOf):
    """Runs by scenario, model, method and seed; a list that is absent takes all."""

    scenarios: Names = ABSENT
    """Only runs of these scenarios; absent: all."""


@dataclasses.dataclass(frozen=True)
class Compare:
    """The methods that others are compared with."""

    baseline: str = "mix"
    """Name of the method that differences are against."""
    oracle: str = ABSENT
    """Name of the method that regrets are against; absent: none."""


@dataclasses.dataclass(frozen=True)
class Paper:
    """Which of the experiment's names play the paper's (pipeline/paper/names.csv)."""

    comparable: bool = False
    """Whether data, models, recipes are the paper's: then its numbers may stand beside ours."""
    headline: Formulation = "cf"
    """Formulation of downstream tasks by which the paper's tables and figures are shown."""
    scenarios: Roles = ABSENT
    """Scenarios by the paper's."""
    models: Roles = ABSENT
    """Sizes by the paper's."""
    methods: Roles = ABSENT
    """Methods by the paper's."""
    tasks: Roles = ABSENT
    """Domains and tasks (continuation-{domain}, too) by the paper's."""


@dataclasses.dataclass(frozen=True)
class Quick:
    """What `make quick` builds, the first of all."""

    tables: Names = ABSENT
    """Names of tables."""
    figures: Names = ABSENT
    """Names of figures."""


@dataclasses.dataclass(frozen=True)
class ScenarioProbe(RunsOf, Probe):
    """Settings of the gradient probe, and of which runs."""


Source = Annotated[
    HuggingFaceSettings | LocalSettings | PythonSource | SyntheticSource, Discriminator("kind")
]
Tokenizer = Annotated[GivenTokenizer | HubTokenizer | TrainedTokenizer, Discriminator("kind")]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What to train on, with which methods, and what to derive from it."""

    experiment: Name
    """The experiment's name."""
    results: Folder
    """Folder for everything that the experiment makes; two experiments need two folders."""
    sources: Annotated[dict[Name, Source], Filled]
    """Named corpora of documents; a source's name is the name of its domain."""
    tokenizers: Annotated[dict[Name, Tokenizer], Filled]
    """Named tokenizers."""
    packing: Packing
    """How documents become tokens."""
    models: Annotated[dict[Name, Model], Filled]
    """Named sizes of the model."""
    training: Annotated[dict[Name, Training], Filled]
    """Named training recipes."""
    evaluation: Annotated[dict[Name, ScenarioEvaluation], Filled]
    """Named ways to evaluate a run's checkpoints."""
    probe: dict[Name, ScenarioProbe]
    """Named ways to probe the gradients of a run's checkpoints."""
    methods: Annotated[dict[Name, dict[str, Any]], Filled]
    """Named mixing methods, each a rule (`rule`) with its settings, which `pike methods` lists;
    `training` names a recipe of its own, such as one of more steps, and `grid` a search."""
    scenarios: Annotated[dict[Name, Scenario], Filled]
    """Named sets of domains with all that runs on them share."""
    runs: Annotated[tuple[Runs, ...], Filled]
    """Which runs make up the experiment; each entry stands for all combinations of its lists."""
    tables: dict[Name, Selection]
    """Tables to build, by the name of their query, with the runs that each needs."""
    figures: dict[Name, Selection]
    """Figures to draw, by name, with the runs that each needs."""
    swarms: dict[Name, Swarm] = ABSENT
    """Named sets of small runs on drawn mixtures, from which mixtures are found."""
    mixtures: dict[Name, Mixture] = ABSENT
    """Named mixtures that other runs find; a method of rule fixed trains with one."""
    grids: dict[Name, Grid] = ABSENT
    """Named sets of runs that choose settings; a method of any rule takes them by `grid: NAME`."""
    tasks: dict[str, TaskFiles] = ABSENT
    """Downstream tasks whose data sets do not come from the Hub at the pinned revision."""
    compare: Compare = ABSENT
    """The methods that others are compared with."""
    predictions: Predictions = ABSENT
    """What a registration expects; the report shows it beside the outcome."""
    paper: Paper = ABSENT
    """Which of our names play the paper's: ours, then the paper's. A name that the paper uses plays
    itself, unless another is cast for it."""
    quick: Quick = ABSENT
    """What `make quick` builds, the first of all."""
