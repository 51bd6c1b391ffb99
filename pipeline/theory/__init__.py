"""The paper's theory, checked with numbers: Example 1, the bounds, the weights, the tilted loss.

Reading order: problem (losses whose constants are known), example, descent, relaxed, convergence,
tilt; stage writes the records. What is wrong in the paper stands in pipeline/paper/errata.csv.
"""
