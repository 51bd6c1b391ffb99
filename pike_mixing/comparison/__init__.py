"""Distributions, paired tests and standard errors, without any data of ours."""
