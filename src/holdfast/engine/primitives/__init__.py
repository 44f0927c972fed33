"""The functions that workflow code calls: steps, commands, gates, sleeps, fan-outs, checkpoints."""
