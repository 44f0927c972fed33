"""The pure heart: events, state, decide, evolve, step identity, codec. No I/O, no clock, no ids."""
