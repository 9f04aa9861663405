"""A node as a whole: its roles on one runtime, started and stopped in order."""
