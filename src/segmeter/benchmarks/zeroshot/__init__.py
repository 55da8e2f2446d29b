"""Segment Anything's zero-shot evaluation: points, boxes, edges and proposals."""
