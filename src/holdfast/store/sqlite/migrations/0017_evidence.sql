-- The evidence of all runs is listed without a look at the rest of the log.
CREATE INDEX events_of_evidence ON events (stream, version) WHERE type IN ('EvidenceWritten', 'EvidenceVerified');
