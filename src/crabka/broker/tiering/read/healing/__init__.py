"""Checks what comes from the tier before it is served, and corrects or leaves out what is damaged."""
