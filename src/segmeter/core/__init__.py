"""The words of segmeter: scenes, targets, prompts, models, users, measures, sessions."""
