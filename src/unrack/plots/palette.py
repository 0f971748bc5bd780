"""Colours that are told apart with any colour vision."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8F8F8F", "#A6761D")
"""Okabe and Ito's, without yellow and black, which are hard to see or taken by text."""
