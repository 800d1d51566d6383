"""Policies that are no trained agent: what a score must be read against."""
