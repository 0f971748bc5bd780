"""Pure optimisation: problems and answers as arrays, with no word of data centres."""
