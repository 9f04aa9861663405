"""`crabka quotas`: how much clients may use."""
