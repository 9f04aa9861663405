"""A node on this machine: `up`, `serve`, `format`, and what they share: settings, logging, signals, stop."""
