"""The biLM itself, in pure PyTorch: this package imports neither spaCy nor Thinc."""
