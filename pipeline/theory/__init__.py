"""The paper's theory, checked with numbers: Example 1, the bounds, the iterations.

Reading order: problem (losses whose constants are known), example, descent, convergence;
stage writes the records. What is wrong in the paper stands in pipeline/paper/errata.csv.
"""
