"""Whole clusters of real nodes in virtual time, with clients, faults and checks."""
