"""One run being executed: its state, its drivers, and the delivery of outcomes in one order."""
