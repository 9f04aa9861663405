"""Tests of `crabka quotas`."""
