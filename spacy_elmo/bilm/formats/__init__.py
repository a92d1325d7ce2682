"""The layouts in which biLMs are stored, one file each: read(place) -> (BiLMConfig, tensors)."""
