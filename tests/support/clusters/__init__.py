"""Clusters without machines: in memory, on the loopback, planned ones, and real processes."""
