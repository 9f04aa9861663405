"""Removes from the tier what retention no longer keeps, unfinished uploads, and deleted topics."""
