"""What keeps tables in order: compaction, rewinding after a log was cut, and the status of a table."""
