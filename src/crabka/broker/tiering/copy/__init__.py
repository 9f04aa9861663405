"""TODO-PACKAGE copy."""
