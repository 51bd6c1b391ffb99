"""Values of settings that a run need not state, from where they are defined."""

import ast
import dataclasses

from pipeline import settings
from pipeline.planning import method_docs
from pipeline.runtime import atomic_files


def rows() -> list[list[str]]:
    """Kind and settings as JSON: of the training recipe, and of the mixing rule pike."""
    recipe = {
        field.name: field.default
        for field in dataclasses.fields(settings.Training)
        if isinstance(field.default, int | float | str)
    }
    pike = {
        setting.name: ast.literal_eval(setting.default)
        for setting in method_docs.of("pike").settings
        if setting.default not in (None, "None")
    }
    return [["training", atomic_files.canonical(recipe)], ["pike", atomic_files.canonical(pike)]]
