"""Checks: each module has the facts of a subject, and a function from them to findings, without effects."""
