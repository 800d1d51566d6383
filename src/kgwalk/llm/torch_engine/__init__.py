"""The torch engine: many sequences at once, in slots of one cache, on a GPU or a CPU."""
