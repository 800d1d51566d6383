"""KG-Reasoner: searches inside one thought, ranked candidates, going back."""
