"""Clients for tests: simulated, scripted and foreign ones, and the load that they make."""
