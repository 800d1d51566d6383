"""The learned ranker of candidate entities (KG-Reasoner, equations 1 to 4)."""
