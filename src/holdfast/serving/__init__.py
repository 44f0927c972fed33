"""Executing the runs of a store in worker processes, one for each interpreter and directory of code."""
