"""TODO-PACKAGE read."""
