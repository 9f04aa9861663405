"""The remote tier: `commands` parses and calls; the others open the tier, find, wait and print."""
