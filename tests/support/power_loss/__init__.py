"""A whole node under clients, kills and power cuts on a simulated machine, and what must be true of it all the time."""
