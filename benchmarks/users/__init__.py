"""Users' graphs: ten graphs in the shapes people have, with 40 questions each in their words, and a scorer.

Five are for development (dev/), five are sealed (sealed.tar.gz). README.md says where they come from, what the files
hold, and the rule: **the sealed graphs are scored, and never read when the agent is made better.**
"""
