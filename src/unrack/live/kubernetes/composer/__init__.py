"""Devices behind a fabric, for any scheduler of Kubernetes: published, attached once allocated, detached after."""
