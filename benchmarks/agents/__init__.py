"""Agents trained for real: what docs/results.md shows, from the data to the tables.

    python -m benchmarks.agents prepare DATA WORK     # on a CPU: graphs, questions, demonstrations; an hour of one core
    python -m benchmarks.agents run WORK worlds all agent
    python -m benchmarks.agents publish WORK docs/results
    python -m benchmarks.agents tables docs/results --into docs/results.md --plots docs/images

DATA is a folder of question sets (metaqa, pq-2h, ..., as `kgwalk data convert` writes them). `run` without names lists
the experiments (experiments.py); each is a run of `kgwalk.training.pipeline.train` in WORK/runs, tested into
WORK/evals. What is done is not done again. `publish` puts the reports into docs/results, one file a table, and
`tables` makes the tables of docs/results.md from them (or from WORK, to look at).
"""
