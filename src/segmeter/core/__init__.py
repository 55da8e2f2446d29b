"""The concepts: scenes, targets, prompts, models, users, measures, sessions."""
