"""Policies for pools of devices, and the kernels that find a place there."""
