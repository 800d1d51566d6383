"""The bank of relation concepts: what relations are called and how people ask for them."""
