"""Commands as process trees under a supervisor, and the locks that outlive a kill."""
