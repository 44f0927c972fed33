"""The git repository of a workspace: refs, HEAD, index, worktrees, and going back in them."""
