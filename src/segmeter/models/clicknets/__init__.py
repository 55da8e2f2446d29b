"""Click networks: RITM and SimpleClick, which read clicks as discs beside the image."""
