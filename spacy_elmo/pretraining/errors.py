"""What pretraining refuses."""


class PretrainingError(ValueError):
    """A corpus, config or checkpoint that cannot be used; the message says what to do about it."""
