"""The command line: parse, call, print. The packages below do the work."""
