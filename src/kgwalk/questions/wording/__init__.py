"""Plans put into words: lexicons of templates, grammar, and how sets and chains are worded."""
