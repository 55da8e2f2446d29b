"""TETRIS: how much a model's answer hangs on where exactly a person clicks."""
