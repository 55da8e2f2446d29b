"""segmeter: how good is a segmenter in the hands of people?"""

__version__ = "0.1.0"
__all__ = ["__version__"]
