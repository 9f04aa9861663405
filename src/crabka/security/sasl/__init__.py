"""SASL without connections: the server's side of each mechanism, and the login of a connection as a state machine.

Pure: bytes and the time come in, bytes and outcomes go out; random bits are arguments.
"""
