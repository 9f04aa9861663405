"""What the coordinators of groups and of transactions share: shards that live in partitions of a topic."""
