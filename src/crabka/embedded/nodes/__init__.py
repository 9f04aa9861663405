"""Nodes that a test starts, stops, kills and pauses: on a thread of this process, or in a child process."""
