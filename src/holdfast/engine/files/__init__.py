"""The files of runs: workspaces, snapshots around steps, rollback of attempts."""
