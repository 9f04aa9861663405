"""TODO-PACKAGE raft."""
