"""Raw text -> biLM: corpus, vocabulary, objective, trainer."""
