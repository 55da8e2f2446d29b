"""Segment Anything: SAM, SAM-HQ, MobileSAM, SAM 2 and 2.1, the tracker of SAM 3, EdgeTAM."""
