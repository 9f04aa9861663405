"""The log dirs of a node (JBOD): their content, what is opened, created and deleted, and their checkpoint files.

`log_manager` is the entry: it opens all logs at a start and owns them until they are closed. `log_dir` is one
directory with its lock and its files, `log_dirs` says which of them work and where a new log goes. `dir_writer` is
how batches get into a directory that is slow. `checkpointing` writes the offset checkpoints, `log_flusher` chooses
the logs to flush, `deletions` removes files after `file.delete.delay.ms`.

Invariants: a directory is locked while anything writes to it; a failed disk takes its directory offline and nothing
else; a checkpoint never names an offset that is not durable.
"""
