"""Tests of Crabka."""
