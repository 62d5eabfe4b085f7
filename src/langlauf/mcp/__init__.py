"""Analyses as tools of agents: the Model Context Protocol at `/mcp`, with its extension for tasks."""
