"""TODO-PACKAGE decisions."""
