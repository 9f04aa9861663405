"""Remote tiers: planted, in memory, in directories and in real object stores."""
