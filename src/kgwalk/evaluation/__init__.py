"""Evaluation: a policy over the questions of a dataset, every episode kept, nothing dropped from the denominator."""
