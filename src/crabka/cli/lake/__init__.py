"""Commands that run Spark: tables, and audits, statistics, replays and recovery of a tier."""
