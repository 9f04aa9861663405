"""The clients with blocking calls: an event loop in a thread, and one blocking class per async client."""
