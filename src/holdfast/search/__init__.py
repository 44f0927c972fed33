"""Full-text search over runs, events, tasks and memory.

The index is a file of its own in the store's directory (`search.db`): derived from the log, off the commit
path, not in backups. `index_file` opens it, or makes it again; `filling` brings it up to the log's end; each
family of items has a module (`run_items`, `event_items`, ...); `finding` answers a query.
"""
