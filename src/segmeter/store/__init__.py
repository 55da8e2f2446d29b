"""The store: parts, masks, provenance."""
