"""JSON values with one place spoiled, for tests of what reads them."""

import copy
import json
import math

from hypothesis import strategies as st

WRONG = (None, True, -1, 0, 1.5, math.nan, "x", [], ["x"], {}, {"x": 1})


def paths(value, before=()):
    """Every place within a JSON value."""
    listed = dict(enumerate(value)) if isinstance(value, list) else value
    for key, one in listed.items() if isinstance(listed, dict) else ():
        yield (*before, key)
        yield from paths(one, (*before, key))


@st.composite
def edited(draw, value):
    """A JSON text with one place taken out or of another kind, or cut short."""
    if draw(st.booleans()) and draw(st.booleans()):
        text = json.dumps(value)
        return text[: draw(st.integers(0, len(text) - 1))]
    changed = copy.deepcopy(value)
    *before, last = draw(st.sampled_from(list(paths(changed))))
    place = changed
    for key in before:
        place = place[key]
    if draw(st.booleans()):
        del place[last]
    else:
        place[last] = draw(st.sampled_from(WRONG))
    return json.dumps(changed)
