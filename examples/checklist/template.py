"""A package about kelp."""
