"""Kubernetes' own ways of writing things down: quantities, and lists of objects; a leaf that many share."""
