"""A plan put into words: what people say for relations, values and sets, in light English."""
