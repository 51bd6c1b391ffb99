"""Finders of static mixtures: they read many small finished runs and say what to train on.

`FINDERS` is the one table of names. A finder's module is imported when it is asked for, so that
nobody needs the libraries of a finder that he does not use.
"""

FINDERS = {
    "regmix": "pike_mixing.finders.regmix:RegMix",
    "mixing-law": "pike_mixing.finders.mixing_law:MixingLaw",
    "exposure-law": "pike_mixing.finders.exposure_law:ExposureLaw",
    "scheffe": "pike_mixing.finders.scheffe:Scheffe",
    "gaussian-process": "pike_mixing.finders.gaussian_process:GaussianProcess",
    "mde": "pike_mixing.finders.data_experts:MDE",
    "best": "pike_mixing.finders.best_run:Best",
    "average": "pike_mixing.finders.proxy_average:Average",
}
