"""Tests of `crabka users`."""
