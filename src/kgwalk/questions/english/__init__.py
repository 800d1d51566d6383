"""Light English: inflection, kinds of nouns, and how noun phrases fit into sentences."""
