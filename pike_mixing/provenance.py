"""Where each rule and finder comes from, what differs here, and how it was checked."""

from typing import NamedTuple


class Provenance(NamedTuple):
    """Of one rule or finder; the details stand in its module."""

    source: str
    differs: str = "nothing"
    """From the source, in what it computes."""
    checked: str = "by hand"
    """Beside numbers worked out by hand, which every one has, and invariants of every rule."""


RULES = {
    "mix": Provenance("PiKE (arXiv 2502.06244), Building Block 1"),
    "round-robin": Provenance("PiKE, Building Block 1"),
    "random": Provenance("PiKE, Building Block 1"),
    "single": Provenance("PiKE, its reference for what mixing gains"),
    "fixed": Provenance("GLaM's and DoReMi's weights, as PiKE prints them", "divided by their sum"),
    "temperature": Provenance("mT5 (arXiv 2010.11934)"),
    "unimax": Provenance("UniMax (arXiv 2304.09151)", checked="example of unimax-sampling"),
    "schedule": Provenance("this project", "-", "caps by property tests; one mixture in six loops"),
    "pike": Provenance(
        "PiKE, its main algorithm",
        "fresh rows; preset `recommended`: norms without noise, from T0",
        "estimators by Monte Carlo",
    ),
    "balanced-pike": Provenance("PiKE, Algorithm 3", "as pike"),
    "conceptual-pike": Provenance(
        "PiKE, its conceptual algorithm", "norms without noise by default", "exact fractions; KKT"
    ),
    "scale-free-pike": Provenance(
        "this project, after PiKE", "-", "property tests; registered boards"
    ),
    "ado": Provenance(
        "ADO (arXiv 2410.11820), code bc3d8d0",
        "prior 1/K; a fit of our own; smoothed as it comes; too early a fit is refused",
        "exact laws to four digits; SciPy's filter",
    ),
    "odm": Provenance("ODM, code edbfdad", "nothing", "60 recorded batches of the code's rule"),
    "famo": Provenance("FAMO (arXiv 2306.03792), code 0a6ad06", checked="40 recorded steps"),
    "gradnorm": Provenance(
        "GradNorm (arXiv 1711.02257)",
        "unit and optimizer of its weights; losses at step 100 in place of the first",
    ),
    "doremi": Provenance(
        "DoReMi (arXiv 2305.10429), code 7cde52d",
        "a domain absent at first keeps its weight; no late weights",
        "12 recorded batches",
    ),
    "doge": Provenance(
        "DoGE (arXiv 2310.15393)", "target: all domains on the batch; a step that stays the same"
    ),
    "skill-it": Provenance(
        "Skill-it (arXiv 2307.14430), as trained by aioli",
        "losses at the end of a round; the code has those at its start",
    ),
    "aioli": Provenance("Aioli (arXiv 2411.05735)", "seeded order of slots"),
    "r-and-b": Provenance(
        "R&B (arXiv 2505.00358), Algorithm 1",
        "no regrouping; products of each step averaged, with their noise; all layers",
    ),
    "pcgrad": Provenance(
        "PCGrad (Yu et al. 2020)", "by inner products; scale of Mix by default", "TorchJD"
    ),
    "gradvac": Provenance(
        "GradVaccine (Wang et al. 2021)", "one group; targets capped; scale of Mix by default"
    ),
    "mgda": Provenance("MGDA (Sener and Koltun 2018)", "solved exactly", "TorchJD; grids"),
    "cagrad": Provenance(
        "CAGrad (Liu et al. 2021)", "solved exactly; scale of Mix by default", "4,000 other updates"
    ),
    "nash-mtl": Provenance(
        "Nash-MTL (Navon et al. 2022)",
        "solved exactly; scale of Mix by default",
        "its own equations",
    ),
    "upgrad": Provenance("UPGrad (Quinton and Rey 2024)", checked="SciPy's NNLS"),
    "adatask": Provenance(
        "AdaTask (Yang et al. 2023), code 84853de", "scale of Mix by default", "recorded steps"
    ),
}
FINDERS = {
    "regmix": Provenance(
        "RegMix (arXiv 2407.01492)", "small leaves; trees chosen by cross-validation", "known laws"
    ),
    "mixing-law": Provenance(
        "data mixing laws (arXiv 2403.16952); Olmix (2602.12237) for prior and caps",
        "our own fit; solved with a proof (KKT)",
        "known laws; grids",
    ),
    "exposure-law": Provenance(
        "benchmark of surrogates of marin-community/marin (September 2026)",
        "a grid of our own; one shape for all domains of a loss",
        "known laws of epochs",
    ),
    "scheffe": Provenance(
        "Scheffe (J. R. Stat. Soc. B 20, 1958)", "ridge, by leaving runs out", "by hand"
    ),
    "gaussian-process": Provenance(
        "Rasmussen and Williams (2006), chapter 2",
        "powers of weights, logarithms of losses",
        "known laws",
    ),
    "mde": Provenance(
        "MDE (arXiv 2502.15950)", "ridge regression of what its features leave", "known optimum"
    ),
    "best": Provenance("search among what was trained"),
    "average": Provenance("DoReMi, DoGE: last line"),
    "mixmin": Provenance(
        "MixMin (arXiv 2502.10510), code 7212abe",
        "EM steps to the same minimum",
        "recorded descent",
    ),
    "reuse": Provenance("Olmix, section 4", checked="mixtures of its case study"),
    "design": Provenance("optimal design of experiments: D-optimal, I-optimal", "-", "by hand"),
}
"""Finders of `pike_mixing.finders`, functions over arrays among them."""
