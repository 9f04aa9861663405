"""How the replicas of a tiered partition begin after what the tier holds."""
