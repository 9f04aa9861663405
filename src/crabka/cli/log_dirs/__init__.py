"""The log dirs of brokers: `commands` parses and calls; the others plan, wait, check and print."""
