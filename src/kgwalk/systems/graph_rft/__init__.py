"""Graph-RFT: plan once, then search the graph, and the web where the graph is incomplete."""
