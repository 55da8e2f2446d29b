"""Studies with real people: where they click, what they think of masks, how they segment."""
