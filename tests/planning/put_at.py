"""Values of a configuration, by their place."""

from edits import GONE


def put(values, place, value):
    """Sets the value at a place (`runs.0.seeds`), or takes it out (GONE)."""
    *way, last = (int(part) if part.isdecimal() else part for part in place.split("."))
    for part in way:
        values = values[part]
    if value is GONE:
        del values[last]
    else:
        values[last] = value
