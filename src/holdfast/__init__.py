"""Durable execution for AI agents."""
