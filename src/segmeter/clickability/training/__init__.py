"""Training the click network: samples, recipes, augmentation, and the course of a training."""
