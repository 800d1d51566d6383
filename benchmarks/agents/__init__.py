"""Agents trained for real: what docs/results.md shows, from the data to the tables.

    python -m benchmarks.agents prepare DATA WORK     # on a CPU: graphs, questions, demonstrations; an hour of one core
    python -m benchmarks.agents run WORK worlds all agent
    python -m benchmarks.agents tables WORK --plots FIGURES

DATA is a folder of question sets (metaqa, pq-2h, ..., as `kgwalk data convert` writes them). `run` without names lists
the experiments (experiments.py); each is a run of `kgwalk.training.pipeline.train` in WORK/runs, tested into
WORK/evals. What is done is not done again.
"""
