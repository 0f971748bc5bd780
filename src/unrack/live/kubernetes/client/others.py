"""Objects that are few, with their parts as tables as they came; not every server has all of these kinds."""

from __future__ import annotations

from typing import Any

from msgspec import field

from unrack.live.kubernetes.client.objects import Kind, Metadata, ObjectPart


class Other(ObjectPart, frozen=True):
    """An object."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


RESOURCE = "/apis/resource.k8s.io/v1"
SLICES = Kind(RESOURCE, "resourceslices", Other, namespaced=False)
"""What drivers publish of their devices, as it was written; :mod:`devices.objects` has it by fields."""
NAMESPACES = Kind("/api/v1", "namespaces", Other, namespaced=False)
POD_GROUPS = Kind("/apis/scheduling.k8s.io/v1beta1", "podgroups", Other)
PLUGINS_POD_GROUPS = Kind("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", Other)
"""PodGroups of Kubernetes itself; and those of scheduler-plugins, a definition that a site installs."""
JOB_SETS = Kind("/apis/jobset.x-k8s.io/v1alpha2", "jobsets", Other)
"""JobSets, a definition that a site installs."""
