"""Published biLMs and how they come into the user's cache: all that uses the network."""
