"""TODO-PACKAGE producers."""
