"""What reading a biLM can go wrong with."""


class BiLMError(ValueError):
    """A biLM that cannot be read or built; the message names file, key, found, expected, remedy."""
