"""What a broker sends to the active controller, and requests of clients that it forwards."""
