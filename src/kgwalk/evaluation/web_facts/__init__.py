"""Facts proposed from the web: what a run's web searches say and its graph lacks.

An agent that walks an incomplete graph may search the web (`web_search("Norway", "capital")`). The documents that came
back stay in the run's folder. This package reads them again and proposes the facts in them for the graph:

    kgwalk kg propose RUN -o facts.jsonl      # (Norway, capital, Oslo), confidence 0.9, with its sources
    kgwalk kg accept facts.jsonl G -o NEW     # a new store: the graph and the facts that were accepted

- `roles`: which names in a sentence are the head and which the tail of a relation
- `reading`: one web search to facts: sentences, names, roles, and whether the kinds fit
- `propose`: a whole run to proposals with a confidence, and accepted ones to a new store

No model is asked: sentences are read by rules, in English.
"""
