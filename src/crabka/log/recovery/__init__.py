"""Opening the directory of a log after a clean stop or a crash, and what was cut or rebuilt on the way."""
