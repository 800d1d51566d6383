"""Evaluation of policies, reports and comparisons, checks of datasets, facts proposed from the web."""
