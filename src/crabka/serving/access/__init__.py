"""What a node asks before it answers a request: the authorizer, the audit log, and the way a check wraps a handler."""
