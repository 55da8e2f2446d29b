"""Users of videos: which frame they prompt, and with what."""
