"""Text to graph: a model reads passages, and what it says is kept where the text bears it out.

    documents -> passages -> replies -> triples with their sentences -> names merged -> files for `kgwalk kg build`

`extract` is the run, `passage_facts` one passage (prompt, grammar, parser, spans), `merging` what names and relations
are the same.
"""
