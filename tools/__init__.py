"""Tools for people who work on Crabka."""
