"""The command line: parse, call, print. Nothing here knows more than the packages below tell it."""
