"""Nodes for tests: simulated, as processes, among scripted peers."""
