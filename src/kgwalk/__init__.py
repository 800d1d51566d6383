"""kgwalk: small language models that answer questions by walking a knowledge graph."""

__version__ = "0.1.0"
