"""Thinc layers: the biLM as a model, the scalar mix, the listener. They import no torch by themselves."""
