"""MCP: the graphs and the agent as read-only tools for any host that speaks it, on stdio and at /mcp."""
