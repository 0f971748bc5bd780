"""Workloads of neural networks that are trained on GPUs of one machine."""
