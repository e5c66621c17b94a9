"""The tools for other agents: a server of the Model Context Protocol. A client's session is an investigation,
with a transcript like any other; the client decides what the planner decides elsewhere."""
