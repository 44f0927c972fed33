"""Budgets: `Governor` reserves before an attempt and settles with its end; `Budgets` keeps the accounts."""

from holdfast.agents.governor.budgets import Budgets
from holdfast.agents.governor.governor import Governor

__all__ = ["Budgets", "Governor"]
