"""The paper's theory, checked with numbers: Example 1, the bounds, the weights, the tilted loss.

Reading order: problem (losses whose constants are known), example, descent, relaxed, convergence,
tilt; `findings` of each say what is wrong in the paper, as a `Finding`; stage writes the records.
"""
