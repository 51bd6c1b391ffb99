"""Figures: which view each kind of figure draws, and how readers are to take it."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from pike_mixing.errors import InputError
from pike_mixing.settings import parse, unknown
from pipeline.results import curves, drawing, marks, sealed
from pipeline.results.drawing import Panel
from pipeline.results.selection import Row, connect_ours, rows
from pipeline.runtime import atomic_files, ownership


@dataclasses.dataclass(frozen=True)
class FigureSettings:
    """One figure."""

    name: str
    """Its name, that of its files."""
    selection: dict[str, object] = dataclasses.field(default_factory=dict)
    """Runs by scenarios, models, methods or seeds, or values by column of the view."""
    kind: str | None = None
    """A name in `KINDS`: what is drawn; absent: the figure's own name."""

    def problems(self) -> list[str]:
        """A kind that is not there."""
        kind = self.kind or self.name
        return [] if kind in KINDS else [unknown(kind, KINDS, "kind")]


def write(settings: Path, database: Path, out: Path) -> None:
    """Writes one figure as .svg and .png, and the numbers behind it as .json.

    Args:
        settings: JSON of `FigureSettings`.
        database: The experiment's database.
        out: Any of the three files; the others are written beside it.

    Raises:
        InputError: wrong settings, no database, or nothing selected.
    """
    values = atomic_files.read_json(settings)
    figure = parse(FigureSettings, values, str(settings))
    kind = KINDS[figure.kind or figure.name]
    places = ownership.siblings(out, (".svg", ".png", ".json"), "figure", [settings, database])
    connection = connect_ours(database)
    try:
        found = rows(connection, kind.query, figure.selection, str(settings))
        baseline = connection.execute("select baseline from experiment").fetchall()[0][0]
        doubts = marks.doubts(connection, str(settings))
    finally:
        connection.close()
    if kind.of_baseline and "methods" not in figure.selection:
        found = [row for row in found if row["method"] == baseline] or found
    signs = {place: marks.signs(marked) for place, marked in doubts.items()}
    for row in found:
        row["sign"] = signs.get((row.get("scenario"), row.get("model"), row.get("method")), "")
    # A line of a method ends with its sign; a panel of one has it in its title.
    panels = [
        dataclasses.replace(p, title=p.title + signs.get((p.scenario, p.model, p.title), ""))
        for p in kind.panels(found, baseline)
    ]
    if not panels:
        raise InputError(
            f"{settings}: figure {figure.name!r} is empty: no selected run has what it shows; "
            "select others, or take it out of `figures` in the configuration"
        )
    data = drawing.draw(figure.name, panels, kind.columns, out)
    signed = {mark for mark, sign in marks.SIGNS.items() if any(sign in r["sign"] for r in found)}
    caption = " ".join([kind.caption, *marks.notes(signed)])
    facts = {"name": figure.name, "caption": caption, "lines": kind.lines, "view": kind.query}
    drawing.write_data(out, {**facts, **data})
    sealed.write(out, "figure", values, [sealed.manifest(database)], places.values())


@dataclasses.dataclass(frozen=True)
class Kind:
    """How one kind of figure is made."""

    query: str
    """The view that it draws."""
    panels: Callable[[list[Row], str], list[Panel]]
    """From the view's rows and the baseline's name to panels."""
    columns: int
    """Panels in a row."""
    lines: str
    """What its lines stand for, in the plural: the page's buttons are named so."""
    caption: str
    """What it shows and how to read it."""
    of_baseline: bool = False
    """Shows the baseline's runs alone unless methods are selected."""


SIMILAR = (
    "The paper's Figure {}: cosine and ratio of the domains' gradients under Mix, by pair. The "
    "plain cosine falls as noise grows; the one with noise taken out stands beside it. The ratio "
    "divides the inner product by the sum of both squared lengths: a half for equal gradients."
)

KINDS: Mapping[str, Kind] = {
    "losses": Kind(
        "figure_losses",
        curves.losses,
        3,
        "methods",
        "Loss on held-out text of each domain while training goes on, in nats per token: lower is "
        "better. Dashed lines: the frequencies of single tokens and, where it is known, the "
        "entropy below which no model can go. What lies above the first, such as untrained "
        "models, is cut. A line is the mean over seeds and its band one standard error over seeds "
        "and documents; a line without a band is of one seed.",
    ),
    "differences": Kind(
        "figure_differences",
        curves.differences,
        3,
        "methods",
        "The same losses minus those of the baseline at the same step, in nats: below zero a "
        "method is ahead. The axis suits the methods near the baseline; others may leave it.",
    ),
    "weights": Kind(
        "figure_weights",
        curves.weights,
        3,
        "domains",
        "The share of each domain in what is drawn for a batch, while training goes on. Static "
        "methods stay flat; adaptive ones move. Averaged over stretches of steps and over seeds.",
    ),
    "similarities": Kind(
        "figure_similarities",
        curves.similarities,
        3,
        "pairs of domains",
        "How alike the gradients of two domains are at each checkpoint: a cosine of 1 means that "
        "both pull the same way, 0 that neither minds the other, -1 that one undoes the other. "
        "Noise alone lowers the plain cosine, so the one with noise taken out stands beside it. "
        "The ratio is the paper's: the inner product divided by the sum of both squared lengths, "
        "a half for equal gradients and near zero where one is much longer.",
        of_baseline=True,
    ),
    "gradients": Kind(
        "figure_gradients",
        curves.gradients,
        3,
        "domains",
        "What PiKE measures when it sets its weights: the squared length of each domain's "
        "gradient, the variance between rows, and their quotient, the number of rows at which "
        "signal and noise are equal. Values that come out negative are left out.",
    ),
    "lengths": Kind(
        "figure_lengths",
        curves.lengths,
        3,
        "domains",
        "How long the documents of each domain are in training: at 6 stand those of 64 to 127 "
        "tokens, each with its end. A domain of short documents gives a row of a batch many of "
        "them, and its loss many beginnings.",
    ),
    "figure1": Kind(
        "figure1",
        curves.declared,
        2,
        "methods",
        "The paper's Figure 1: mean accuracy on the tasks while training goes on, for two "
        "languages and for the six domains, the large model; a band is one standard error over "
        "seeds and items, a line without one is of one seed. Below: how much sooner the quickest "
        "PiKE is, and stays, where the baseline ends, on the same tasks.",
    ),
    "figure2": Kind(
        "figure2",
        curves.declared,
        3,
        "methods and pairs of domains",
        "The paper's Figure 2: mean accuracy with batches of Mix, Round-Robin and Random, and how "
        "alike the domains' gradients are under Mix. Bands are one standard error over seeds, of "
        "accuracies also over items; a line without one is of one seed. Noise alone lowers the "
        "plain cosine, so the one with noise taken out stands beside it.",
    ),
    "figure3": Kind(
        "figure3",
        curves.example,
        2,
        "mixtures",
        "The paper's Figure 3: Example 1, two quadratic losses, under the mixture that is best "
        "for the next step and under static ones, and the share of task 1 in the batches. Static "
        "losses are exact; bands are 95% intervals of simulated paths. The paper does not say with "
        "which values it was drawn: ours are the first row of theory_example_settings.",
    ),
    "figure4": Kind(
        "figure4",
        curves.declared,
        2,
        "methods",
        "The paper's Figure 4: mean accuracy with batches of Mix, Round-Robin and Random, for "
        "three languages and for the six domains, the large model; a band is one standard error "
        "over seeds and items, a line without one is of one seed.",
    ),
    "figure5": Kind("figure5", curves.declared, 3, "pairs of domains", SIMILAR.format(5)),
    "figure6": Kind("figure6", curves.declared, 3, "pairs of domains", SIMILAR.format(6)),
    "figure7": Kind(
        "figure7",
        curves.declared,
        1,
        "methods",
        "The paper's Figure 7: mean perplexity on held-out text of two languages with Mix, PCGrad "
        "and AdaTask, the small model. Lower is better; the untrained model is left out.",
    ),
    "figure8": Kind(
        "figure8",
        curves.declared,
        3,
        "methods",
        "The paper's Figure 8: the sampling weight of each of three languages while the large "
        "model trains with a method of the PiKE family, beside Mix.",
    ),
}
