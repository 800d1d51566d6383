"""Questions and noun phrases from the words of a relation's name, by how the name reads."""
