"""Invented graphs: small, with schemas drawn from the bank and names that nothing else has."""
