"""Evidence: `EvidenceWriter` documents a milestone from the log; `verify` runs its commands again."""

from holdfast.agents.evidence.document import Image, MilestoneRecord
from holdfast.agents.evidence.writer import EvidenceWriter
from holdfast.engine.primitives.milestone import Reached, Written

__all__ = ["EvidenceWriter", "Image", "MilestoneRecord", "Reached", "Written"]
