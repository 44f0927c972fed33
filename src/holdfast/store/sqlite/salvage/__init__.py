"""Reading what is left of a damaged database: pages, frames of the write-ahead log, records, rows."""
