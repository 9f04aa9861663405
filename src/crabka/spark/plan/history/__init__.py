"""Whether a log still has what was read of it: witnesses of batches, and how they are compared (`histories`)."""
