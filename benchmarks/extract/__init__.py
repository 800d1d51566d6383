"""How well a model turns text into triples: six short passages, annotated by hand, and the score."""
