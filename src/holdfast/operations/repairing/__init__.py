"""`repair`: find out what of a store is damaged, and mend it from what its copies still hold."""
