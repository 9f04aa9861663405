"""TODO-PACKAGE segment."""
