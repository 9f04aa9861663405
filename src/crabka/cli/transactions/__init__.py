"""`crabka transactions`: `commands` parses and prints, `hanging` finds transactions that never end."""
