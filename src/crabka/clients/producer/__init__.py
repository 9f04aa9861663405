"""TODO-PACKAGE producer."""
