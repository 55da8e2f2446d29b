"""Click networks: RITM and SimpleClick, which read clicks as discs in extra channels."""
