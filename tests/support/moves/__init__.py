"""Replica moves between log dirs: worlds, histories and load."""
