"""Runs in this process: workflows and their code, claim, start, resume, recovery, child runs."""
