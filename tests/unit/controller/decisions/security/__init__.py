"""Tests of decisions about what clients may do."""
