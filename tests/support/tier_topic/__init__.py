"""The metadata topic of the tier: managers, events, histories and models."""
