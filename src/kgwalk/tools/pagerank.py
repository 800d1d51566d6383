"""Personalised PageRank: how often a walker is where, who follows random edges and now and then starts anew.

Exact on the edges it is given, by power iteration; a caller gives the neighbourhood of the starts, never a whole graph.
Knows numbers only, no names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

RESTART = 0.15  # the usual value: 1 - the damping factor 0.85
CLOSE = 1e-10  # of the mass that still moves: 132 rounds at RESTART are always enough


def pagerank(nodes: int, edges: Sequence[tuple[int, int]], starts: Sequence[int], restart: float = RESTART) -> F64:
    """The share of time at each node; edges are walked both ways, parallel ones count each.

    p = restart s + (1 - restart) W p, where s is even over the starts and W moves a node's share evenly over its edges.
    A line 0 - 1 - 2, from 0, restart 1/2:

        p0 = 1/2 + 1/2 (p1/2)    p1 = 1/2 (p0 + p2)    p2 = 1/2 (p1/2)    ->    7/12, 4/12, 1/12

    >>> [round(12 * share, 6) for share in pagerank(3, [(0, 1), (1, 2)], [0], 0.5).tolist()]
    [7.0, 4.0, 1.0]

    A node without edges keeps what it has: alone, a start has everything.

    >>> pagerank(1, [], [0]).tolist()
    [1.0]
    """
    ends_E2: I64 = np.asarray(edges, np.int64).reshape(-1, 2)
    source_M = np.concatenate([ends_E2[:, 0], ends_E2[:, 1]])  # M: moves, two for each edge
    target_M = np.concatenate([ends_E2[:, 1], ends_E2[:, 0]])
    degree_N = np.bincount(source_M, minlength=nodes).astype(np.float64)
    alone_N = degree_N == 0
    start_N = np.bincount(np.asarray(starts, np.int64), minlength=nodes) / max(1, len(starts))
    share_N: F64 = start_N.copy()
    while True:
        each_N = share_N / np.maximum(degree_N, 1)
        moved_N = np.bincount(target_M, weights=each_N[source_M], minlength=nodes).astype(np.float64)
        moved_N[alone_N] += share_N[alone_N]
        fresh_N = restart * start_N + (1 - restart) * moved_N
        if np.abs(fresh_N - share_N).sum() <= CLOSE:
            return fresh_N
        share_N = fresh_N


def edge_flows(nodes: int, edges: Sequence[tuple[int, int]], share_N: F64) -> F64:
    """How often each edge is taken, in either direction: p(u) / degree(u) + p(v) / degree(v).

    In the line above 7/12 + 4/24 = 9/12 and 4/24 + 1/12 = 3/12.

    >>> line = [(0, 1), (1, 2)]
    >>> [round(12 * flow, 6) for flow in edge_flows(3, line, pagerank(3, line, [0], 0.5)).tolist()]
    [9.0, 3.0]
    """
    ends_E2: I64 = np.asarray(edges, np.int64).reshape(-1, 2)
    each_N = share_N / np.maximum(np.bincount(ends_E2.ravel(), minlength=nodes), 1)
    flows_E: F64 = each_N[ends_E2[:, 0]] + each_N[ends_E2[:, 1]]
    return flows_E
