"""The MCP server at `/mcp`: agents, workflows and chosen tools as tools, what is stored as resources."""
