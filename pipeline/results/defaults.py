"""Values of settings that a run need not state, from where they are defined."""

import ast
import dataclasses

from pipeline import files, settings
from pipeline.planning import rules


def rows() -> list[list[str]]:
    """Kind and settings as JSON: of the training recipe, and of the mixing rule pike."""
    recipe = {
        field.name: field.default
        for field in dataclasses.fields(settings.Training)
        if isinstance(field.default, int | float | str)
    }
    pike = {
        setting.name: ast.literal_eval(setting.default)
        for setting in rules.of("pike").settings
        if setting.default not in (None, "None")
    }
    return [["training", files.canonical(recipe)], ["pike", files.canonical(pike)]]
