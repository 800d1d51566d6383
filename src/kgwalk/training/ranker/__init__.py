"""Training of the ranker of candidate entities: expansions along gold paths, and the fit."""
