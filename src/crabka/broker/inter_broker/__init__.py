"""TODO-PACKAGE inter_broker."""
