"""A webhook of kube-scheduler: where pods fit, which nodes the policy would rather have, and the binding."""
