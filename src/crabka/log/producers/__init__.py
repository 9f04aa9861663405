"""What a log knows of its producers: sequences, epochs, open transactions, and the snapshots of all that."""
