"""Repairs and held-back checks of the Failure Map, one folder for each mechanism; a distribution of its own."""
