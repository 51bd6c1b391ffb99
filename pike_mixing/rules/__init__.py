"""Update rules, one a file: each reads like the equations of its source."""
