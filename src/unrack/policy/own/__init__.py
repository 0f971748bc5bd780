"""Policies that users write: what is wrong with their code or their answers, said in their own terms."""
