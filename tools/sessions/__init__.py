"""Sessions of other agents: what they show of backends, and what led to a step of them."""
