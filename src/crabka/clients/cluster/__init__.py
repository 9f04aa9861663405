"""TODO-PACKAGE cluster."""
