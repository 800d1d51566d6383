"""Walks in processes beside the one that holds the model: parsing, graph calls and texts use all cores."""
